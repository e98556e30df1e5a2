// The shell: who calls, which screen, when it is read again. A screen is { id, icon, every, load, View }: load reads its data, View shows them.
import { render } from './vendor/preact.js'
import { get, setToken, keepToken, hasToken, server, now, Problem } from './api.js'
import { tenants } from './now.js'
import en from './en.js'
import ja from './ja.js'
import { html, t, Component, lang, setLang, tables, Text, Failure, Find, clock, duration } from './ui.js'
import locks from './now.js'
import lock from './lock.js'
import work from './work.js'
import ids from './ids.js'
import placement from './placement.js'
import happened from './happened.js'

Object.assign(tables, { en, ja })
const screens = [locks, lock, work, ids, placement, happened]
const remembered = (name) => { try { return sessionStorage.getItem(name) } catch { return null } }

// S is all that the page knows. caller is null until the server has said who calls; tenant is chosen in development mode only; data is that of
// the screen that the hash named when it was read; asked is when the requests were sent that have no response yet.
const S = { caller: null, refused: null, tenant: 'default', hash: '', data: null, error: null, at: 0, asked: 0, paused: false, tried: hasToken() }

// Where: #/screen/argument/argument?filter=…
const where = () => {
  const [path, filters] = location.hash.slice(2).split(/\?(.*)/s)
  const [id, ...args] = path.split('/').map((s) => { try { return decodeURIComponent(s) } catch { return s } })
  return { screen: screens.find((s) => s.id === id) || locks, args, q: new URLSearchParams(filters || '') }
}
export const link = (id, ...args) => '#/' + [id, ...args].map(encodeURIComponent).join('/')

// Reading. One run at a time: what an earlier one still gets is thrown away, so that nothing of another tenant is ever shown.
let run = 0, timer, control, failures = 0
function start(keep) {
  run++
  clearTimeout(timer)
  control?.abort()
  control = new AbortController()
  failures = S.asked = 0
  if (!keep) Object.assign(S, { hash: location.hash, data: null, error: null, at: 0 })
  draw()
  if (S.caller) read(run, control.signal)
}

async function read(mine, signal) {
  const { screen, args, q } = where()
  if (S.data && (document.hidden || S.paused)) return
  let wait = screen.every
  S.asked = Date.now()
  try {
    const data = await screen.load({ tenant: S.tenant, caller: S.caller, args, q, signal, before: S.data, changed: draw })
    if (mine !== run) return
    Object.assign(S, { data, error: null, at: now(), asked: 0 })
    failures = 0
  } catch (error) {
    if (mine !== run) return
    if (error instanceof Problem && error.status === 401) return signOut(error)
    if (!(error instanceof Problem)) console.error(error)
    Object.assign(S, { error, asked: 0 })
    wait = Math.min(60_000, Math.max(error.problem?.retry_after_ms || 0, wait * 2 ** ++failures))
  }
  draw()
  timer = setTimeout(read, wait, mine, signal)
}
const again = () => start(true)

// Who calls.
async function identify() {
  try {
    const { body, sent, got } = await get('v1/caller')
    server.add(body.at, sent, got)
    S.caller = body
    S.refused = null
    keepToken()
    S.tenant = body.development ? remembered('leasehold.tenant') || 'default' : body.tenant_id || 'default'
    start()
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    S.refused = error
    if (error.status === 401) setToken('')
    if (!mayHelp(error)) setTimeout(identify, 5000)
    draw()
  }
}
// mayHelp reports whether another token may help.
const mayHelp = (error) => error.status === 401 || (error.status === 403 && hasToken())

function signOut(error) {
  run++
  control?.abort()
  setToken('')
  Object.assign(S, { caller: null, tried: !!error, refused: error || new Problem({ code: 'UNAUTHENTICATED' }, 401, ''), data: null, error: null })
  draw()
}

function signIn(e) {
  e.preventDefault()
  const field = e.target.elements.token
  setToken(field.value.trim())
  S.tried = true
  field.value = ''
  identify()
}

function choose(tenant) {
  if (!tenant || tenant === S.tenant) return
  S.tenant = tenant
  try { sessionStorage.setItem('leasehold.tenant', tenant) } catch { /* only this page knows then */ }
  start()
}

// The page.
const Icon = ({ d }) => html`<svg viewBox="0 0 24 24" aria-hidden="true"><path d=${d} /></svg>`

// narrow is whether the page is one column, as style.css has it: then what is about the reader comes after the screen, for all who go through it in its order.
const narrow = matchMedia('(max-width: 820px)')
narrow.onchange = () => draw()

function Shell() {
  const { screen, args, q } = where()
  document.documentElement.lang = lang()
  document.title = t('screen.' + screen.id) + ' · Leasehold'
  const c = S.caller
  const you = html`<aside class="who" aria-label=${t('you')}>${c && html`<${Who} c=${c} />`}
    <div class="langs" role="group" aria-label=${t('language')}>${Object.keys(tables).map((l) => html`<button key=${l} class="quiet" lang=${l} aria-pressed=${String(l === lang())} onClick=${() => { setLang(l); draw() }}>${{ en: 'English', ja: '日本語' }[l]}</button>`)}</div></aside>`
  return html`<a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById('main').focus() }}>${t('skip')}</a>
  <div class="side"><header><a class="brand" href="#/now"><img src="icon.svg" alt="" width="28" height="28" />Leasehold</a>
    ${c && html`<nav aria-label=${t('nav')}>${screens.map((s) => html`<a key=${s.id} href=${link(s.id)} aria-current=${s === screen ? 'page' : null}><${Icon} d=${s.icon} /><span>${t('screen.' + s.id)}</span></a>`)}</nav>`}
    ${c && html`<p class="brief"><${Text} v=${S.tenant} cut /> <span class="note">${roles(c)}</span></p>`}</header>
    ${!narrow.matches && you}</div>
  <main id="main" tabindex="-1" class=${c && status()[0]}>${c ? html`
    <div class="title"><h1>${t('screen.' + screen.id)}</h1><${Live} screen=${screen} /></div>
    ${S.error && html`<${Failure} error=${S.error} />${!S.data && args.length > 0 && html`<p><a href=${link(screen.id)}>${t('back')}</a></p>`}`}
    ${S.data && S.hash === location.hash ? html`<${Guard} key=${screen.id + '\0' + S.tenant + '\0' + args.join('\0') + '\0' + q} View=${screen.View} data=${S.data} args=${args} q=${q} caller=${c} tenant=${S.tenant} again=${again} />`
      : !S.error && html`<p class="note" role="status">${t('loading')}</p>`}` : html`<${SignIn} />`}
  </main>${narrow.matches && you}`
}

// Guard keeps a fault of one screen from the others.
class Guard extends Component {
  state = { error: null }
  componentDidCatch(error) {
    console.error(error)
    this.setState({ error })
  }
  render({ View, ...rest }, { error }) { return error ? html`<${Failure} error=${error} />` : html`<${View} ...${rest} />` }
}

// roles says what a caller may do beside changing runs.
const roles = (c) => [c.administrator && t('may.change'), c.operator && t('may.operate')].filter(Boolean).join(', ') || t('may.runs')

const Who = ({ c }) => html`
  ${c.development ? html`<${Find} id="tenant" label=${t('tenant')} value=${S.tenant} find=${choose} does=${t('go')} list=${[...tenants].sort()} />`
    : html`<p><span class="note">${t('tenant')}</span> <${Text} v=${c.tenant_id} /></p>`}
  <p>${c.subject ? html`<${Text} v=${c.subject} />` : t('development')}</p>
  <p class="note">${roles(c)}</p>
  ${hasToken() && html`<button class="quiet" onClick=${() => signOut()}>${t('signout')}</button>`}`

// patience is how long a response may take before the page says that there is none, in milliseconds.
const patience = 5000

// status is paused, failing, or live: what the server said last, and whether it still does.
function status() {
  const silent = S.asked && Date.now() - S.asked > patience, none = silent || S.error?.problem?.code === 'NO_RESPONSE'
  if (S.paused) return ['paused', none ? 'live.pausedsilent' : 'live.paused']
  if (none) return ['failing', 'live.silent']
  return S.error ? ['failing', 'live.failing'] : S.at ? ['current', 'live.live'] : ['asking', 'loading']
}

function Live({ screen }) {
  const [state, says] = status()
  return html`<div class=${'live is-' + state} role="status"><span class="dot" key=${S.at}></span><span>${t(says, { every: duration(screen.every), at: S.at ? clock(S.at) : '—' })}</span>
    <button class="quiet" aria-pressed=${String(S.paused)} onClick=${() => { S.paused = !S.paused; again() }}>${t(S.paused ? 'resume' : 'pause')}</button></div>`
}

function SignIn() {
  if (!S.refused) return html`<p class="note" role="status">${t('loading')}</p>`
  if (!mayHelp(S.refused)) return html`<h1>${t('signin.cannot')}</h1><${Failure} error=${S.refused} />`
  return html`<div class="signin"><h1>${t('signin')}</h1><p>${t('signin.why')}</p>
    ${S.tried && S.refused.problem.detail && html`<p class="failure" role="alert"><${Text} v=${S.refused.problem.detail} /></p>`}
    <form onSubmit=${signIn}><label for="token">${t('signin.token')}</label>
    <input id="token" name="token" type="password" autocomplete="off" spellcheck="false" required /><button>${t('signin.do')}</button></form>
    <p class="note">${t('signin.kept')}</p></div>`
}

const root = document.getElementById('app')
const draw = () => render(html`<${Shell} />`, root)

let shown = where().screen
addEventListener('hashchange', () => {
  start()
  const { screen } = where()
  if (screen !== shown) document.getElementById('main').focus({ preventScroll: true })
  shown = screen
  scrollTo(0, 0)
})
document.addEventListener('visibilitychange', () => { if (!document.hidden && S.caller) again() })
setInterval(() => { if (!document.hidden) draw() }, 1000)
draw()
identify()

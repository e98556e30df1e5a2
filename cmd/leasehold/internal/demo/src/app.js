// The page of the demonstration: what happened, three workers with their buttons, two accounts, what it costs, and the scenes. It asks for the state a few times a second
// while it is looked at.
import { render } from '../../../../../console/src/vendor/preact.js'
import { Problem, get, post, server } from '../../../../../console/src/api.js'
import { html, t, has, tables, lang, setLang, number, duration, left, Bar, Text } from '../../../../../console/src/ui.js'
import en from './en.js'
import ja from './ja.js'

Object.assign(tables, { en, ja })

const every = 400
const S = { state: null, failed: null, lines: [], checking: false }

// plain is a text without the marks around names, to be put into another, or into a name that is read out.
const plain = (text) => text.replace(/[\u2068\u2069]/g, '')
const called = (name) => plain(t('worker', { name }))
const seconds = (ms) => duration(Math.abs(ms))

// take shows a state, whoever has asked for it, unless a later one is shown already.
let last = ''
function take({ body, sent, got }) {
  if (body.at < last) return
  last = body.at
  server.add(body.at, sent, got)
  Object.assign(S, { state: body, failed: null })
}

let timer
async function poll() {
  clearTimeout(timer)
  if (S.state && document.hidden) return
  try {
    take(await get('demo/state'))
  } catch (error) {
    S.failed = error
  }
  draw()
  timer = setTimeout(poll, every)
}

async function press(path, body = {}) {
  try {
    take(await post('demo/' + path, body))
  } catch (error) {
    S.failed = error
  }
  draw()
}

// check plays the scenes, and shows each line when it comes.
async function check() {
  Object.assign(S, { lines: [], checking: true, failed: null })
  draw()
  try {
    const r = await fetch('check', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{}' })
    if (!r.ok) throw new Problem(await r.json(), r.status)
    const parts = r.body.pipeThrough(new TextDecoderStream()).getReader()
    for (let text = '', part; !(part = await parts.read()).done; draw()) {
      const lines = (text + part.value).split('\n')
      text = lines.pop()
      S.lines.push(...lines.map((line) => JSON.parse(line)))
    }
  } catch (error) {
    S.failed = error
  }
  S.checking = false
  draw()
}

// What happened, in a sentence.
function sentence(e = {}) {
  let kind = 'story.' + (e.kind || 'start')
  if (e.kind === 'stale' && e.off === 0) kind += '.lucky'
  if (e.kind === 'killed' && e.held) kind += '.held'
  if (e.kind === 'skewed' && e.ms) kind += e.ms > 0 ? '.ahead' : '.behind'
  return t(kind, { worker: called(e.worker), other: called(e.other), token: e.token, higher: e.higher, base: number(e.base), off: number(Math.abs(e.off)), time: seconds(e.ms) })
}

const level = (e) => ({ frozen: 'cold', overtaken: 'cold', stale: 'bad', late: 'bad', repeated: 'bad', ignored: 'bad', killed: 'low', lost: 'low' }[e?.kind] || '')

// Worker is a process with its buttons. Their names say whose they are to those who hear them one by one. The bar is in an element of its own: an element that
// comes and goes beside the buttons would have them made anew, and take the focus from them.
function Worker({ w, state }) {
  const url = 'workers/' + w.name + '/', does = (action, body) => () => press(url + action, body)
  const held = w.expires_at, over = held && left(w.expires_at) <= 0
  const named = (text) => plain(t('of', { does: text, name: w.name }))
  const dead = w.state === 'dead', frozen = w.state === 'frozen' || w.armed
  const offer = (w.state === 'frozen' && w.passed) || (!state.story.length && w.name === 'A')
  const main = frozen ? 'continue' : 'freeze'
  return html`<section class=${'worker ' + w.state} aria-labelledby=${'w' + w.name}>
    <div class="head"><h3 id=${'w' + w.name}>${called(w.name)}</h3><span class="note">${dead ? '' : t('pid', { pid: w.pid })}</span></div>
    <p class="doing"><span class=${'state w-' + (w.armed ? 'armed' : w.state)}>${t('state.' + (w.armed ? 'armed' : w.state))}</span>
      ${held && html` <span class="mono">${t('token', { n: w.token })}</span>`}${w.base !== undefined && html` <span>${t('read', { n: number(w.base) })}</span>`}${over && html` <span class="over">${t('lease.over')}</span>`}</p>
    <div>${held ? html`<${Bar} expires=${w.expires_at} ttl=${state.ttl_seconds} label=${plain(t('lease', { name: w.name }))} />` : html`<div class="bar" aria-hidden="true"></div>`}</div>
    <div class="buttons">
      <button class=${offer ? 'offer' : 'quiet'} disabled=${dead || !state.can_freeze} aria-label=${named(t(main))} onClick=${does(main)}>${t(main)}</button>
      <button class="quiet" aria-label=${named(t(dead ? 'start' : 'kill'))} onClick=${does(dead ? 'start' : 'kill')}>${t(dead ? 'start' : 'kill')}</button>
      <button class="quiet wide" disabled=${dead || w.state === 'frozen' || w.lose} aria-label=${named(t(w.lose ? 'losing' : 'lose'))} onClick=${does('lose')}>${t(w.lose ? 'losing' : 'lose')}</button>
    </div>
    <label for=${'skew' + w.name}>${t('clock')} <output>${w.skew_ms === 0 ? t('clock.right') : t(w.skew_ms > 0 ? 'clock.ahead' : 'clock.behind', { time: seconds(w.skew_ms) })}</output></label>
    <input id=${'skew' + w.name} type="range" min="-10" max="10" step="1" value=${w.skew_ms / 1000} disabled=${dead} aria-label=${plain(t('clock.of', { name: w.name }))}
      onChange=${(e) => press(url + 'skew', { ms: e.target.value * 1000 })} />
  </section>`
}

// Chart is how the balance went, beside what was paid in.
function Chart({ a }) {
  const w = 480, h = 110, all = a.points.flat(), top = Math.max(...all), low = Math.min(...all, top - 60)
  const at = (i, v) => `${(i / Math.max(1, a.points.length - 1) * w).toFixed(1)},${(h - 6 - (v - low) / (top - low || 1) * (h - 12)).toFixed(1)}`
  const should = a.points.map((p, i) => at(i, p[1])), balance = a.points.map((p, i) => at(i, p[0]))
  return html`<svg class="chart" viewBox=${`0 0 ${w} ${h}`} preserveAspectRatio="none" role="img" aria-label=${plain(t('picture', { balance: number(a.balance), should: number(a.should) }))}>
    <polygon class="gap" points=${[...should, ...balance.toReversed()].join(' ')} /><polyline class="should" points=${should.join(' ')} /><polyline class="balance" points=${balance.join(' ')} /></svg>`
}

function Account({ id, a }) {
  const off = a.balance - a.should
  const worst = a.worst && t('so.' + a.worst.outcome, { worker: called(a.worst.worker), off: number(Math.abs(a.worst.off)) })
  return html`<section class=${'panel account ' + (off ? 'wrong' : 'well')} id=${id} aria-labelledby=${id + 'h'}>
    <div><h2 id=${id + 'h'}>${t(id)}</h2><p class="note">${t(id + '.rule')}</p></div>
    <p class="sum"><span class="unseen">${t('balance')}: </span><strong>${number(a.balance)}</strong> <span class="verdict">${off === 0 ? t('right') : t(off < 0 ? 'missing' : 'over', { n: number(Math.abs(off)) })}</span>
      <span class="note under">${t('paid.in', { n: number(a.should) })}</span></p>
    <${Chart} a=${a} />
    <p class="so">${worst || t('so.right')}</p>
    <h3 class="unseen">${t('writes')}</h3>
    <ol class="writes">${a.rows.map((r) => html`<li key=${r.id} class=${'r-' + r.outcome}><span class="mono token">${t('token', { n: r.token })}</span><span class="by">${r.worker}</span>
      <span class="move">${r.outcome === 'stale' || r.outcome === 'repeated' || r.outcome === 'ignored' ? html`<s>${number(r.from)} → ${number(r.to)}</s>` : `${number(r.from)} → ${number(r.to)}`}</span>
      <span class="what">${t('row.' + r.outcome, { off: number(Math.abs(r.off)) })}</span></li>`)}
      ${a.rows.length === 0 && html`<li class="note">${t('row.none')}</li>`}</ol>
  </section>`
}

const money = (n) => '$' + n.toLocaleString('en', { minimumFractionDigits: n < 1 ? 6 : 2, maximumFractionDigits: n < 1 ? 6 : 2 })

function Cost({ c, turns }) {
  return html`<section aria-label=${t('cost')}><dl class="facts">
    <div class="fact"><dt>${t('requests')}</dt><dd id="requests">${number(c.requests)}</dd></div>
    <div class="fact"><dt>${t('dollars', { store: c.store })}</dt><dd id="dollars">${money(c.dollars)}</dd></div>
    <div class="fact"><dt>${t('million')}</dt><dd>${turns ? money(c.dollars / turns * 1e6) : '—'}</dd></div></dl>
    <p class="note">${t('cost.what', { store: c.store, writes: number(c.writes), reads: number(c.reads), asOf: c.as_of })}</p></section>`
}

// Scenes are what "leasehold demo --check" prints, in its language.
function Scenes({ lines, checking }) {
  const end = lines.find((l) => 'ok' in l), error = lines.find((l) => l.error)
  const said = error ? error.error : checking ? t('checks.running') : end ? t('checks.held', { held: end.held, checks: end.checks }) : t('checks.what')
  return html`<section class=${'panel scenes ' + (error || end?.ok === false ? 'wrong' : '')} aria-labelledby="checks">
    <div class="head"><h2 id="checks">${t('checks')}</h2><button class="quiet" disabled=${checking} onClick=${check}>${t('check')}</button></div>
    <p role="status" class=${end ? 'verdict' : ''}>${said}</p>
    ${lines.length > 0 && html`<ol lang="en">${lines.map((l, i) => l.scene && html`${l.scene !== lines[i - 1]?.scene && html`<li><h3>${l.scene}</h3></li>`}
      ${l.what ? html`<li class=${l.held ? 'held' : 'broken'}><b>${l.held ? 'ok' : 'FAIL'}</b><span>${l.what}: ${l.seen}</span></li>`
        : html`<li class="step"><span class="mono">${(l.at_ms / 1000).toFixed(3)}s</span><span>${l.who}</span><span>${l.did}</span></li>`}`)}</ol>`}</section>`
}

function Page() {
  document.documentElement.lang = lang()
  document.title = t('title') + ' · Leasehold'
  const s = S.state
  return html`<a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById('main').focus() }}>${t('skip')}</a>
  <header class="top"><a class="brand" href="../console/#/lock/account"><img src="icon.svg" alt="" width="28" height="28" />Leasehold</a>
    <nav aria-label="Leasehold"><a href="../console/#/lock/account">${t('console')}</a></nav>
    <div class="langs" role="group" aria-label=${t('language')}>${Object.keys(tables).map((l) => html`<button key=${l} class="quiet" lang=${l} aria-pressed=${String(l === lang())} onClick=${() => { setLang(l); draw() }}>${{ en: 'English', ja: '日本語' }[l]}</button>`)}</div></header>
  <main id="main" tabindex="-1">
    <div class="intro"><h1>${t('title')}</h1><p>${t('lead')} <b>${t('try')}</b></p></div>
    ${S.failed && html`<p class="failure" role="alert">${S.failed.problem?.detail ? html`<${Text} v=${S.failed.problem.detail} />` : t('ended')}</p>`}
    ${s ? html`
    <div class=${'story ' + level(s.story[0])}><h2 class="unseen">${t('story')}</h2><p role="status"><span key=${s.story[0]?.id}>${sentence(s.story[0])}</span></p><button class="quiet" onClick=${() => press('reset')}>${t('again')}</button></div>
    ${!s.can_freeze && html`<p class="banner">${t('nofreeze')}</p>`}
    <h2 class="unseen">${t('workers')}</h2>
    <div class="workers">${s.workers.map((w) => html`<${Worker} key=${w.name} w=${w} state=${s} />`)}</div>
    <div class="accounts"><${Account} id="unfenced" a=${s.unfenced} /><${Account} id="fenced" a=${s.fenced} /></div>
    <${Cost} c=${s.cost} turns=${s.turns} />
    <${Scenes} lines=${S.lines} checking=${S.checking} />
    ${s.story.length > 1 && html`<section class="panel before" aria-labelledby="before"><h2 id="before">${t('before')}</h2><ol>${s.story.slice(1).map((e) => html`<li key=${e.id}>${sentence(e)}</li>`)}</ol></section>`}` : html`<p class="note" role="status">${t('loading')}</p>`}
  </main>`
}

const root = document.getElementById('app')
const draw = () => render(html`<${Page} />`, root)
document.addEventListener('visibilitychange', () => { if (!document.hidden) poll() })
draw()
poll()

// What all screens are made of.
import { h, Component, createRef } from './vendor/preact.js'
import htm from './vendor/htm.js'
import { now, Problem } from './api.js'

export { Component, createRef }
export const html = htm.bind(h)

// Languages.

// tables are the texts by their language. A page puts its own in before it shows anything.
export const tables = { en: {}, ja: {} }
const stored = (name) => { try { return localStorage.getItem(name) } catch { return null } }
let language = stored('leasehold.language')
if (!tables[language]) language = navigator.language.toLowerCase().startsWith('ja') ? 'ja' : 'en'
export const lang = () => language
export function setLang(l) {
  language = l
  try { localStorage.setItem('leasehold.language', l) } catch { /* only this page knows then */ }
}

// Texts of others. What has no shape, or changes the direction of what follows, is shown by its number.
const unseen = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufff8]|[\udb40][\udc00-\udfff]/g
export const visible = (text) => String(text ?? '').replace(unseen, (c) => '\u27e8' + c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0') + '\u27e9')

// Text shows a text of others: isolated from the direction of what is around it.
export const Text = ({ v, mono, cut }) => html`<bdi class=${(mono ? 'mono ' : '') + (cut ? 'cut' : 'text')} dir="auto">${visible(v)}</bdi>`

// t is a text of the page in the reader's language; {name} is replaced, isolated in the same way.
export const t = (key, values) => (tables[language][key] ?? key).replace(/\{(\w+)\}/g, (_, name) => '\u2068' + visible(values?.[name]) + '\u2069')
// own is a text of the page into which only the page's own texts and numbers are put.
const own = (key, n) => tables[language][key].replace('{n}', n)
export const has = (key) => key in tables[language]

// Times and numbers.

export const number = (n) => Number(n).toLocaleString(language)
export const clock = (iso) => new Date(iso).toLocaleTimeString(language, { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false })
export const date = (iso) => new Date(iso).toLocaleString(language, { dateStyle: 'medium', timeStyle: 'medium', hour12: false })
export const Time = ({ at }) => (at ? html`<time datetime=${at} title=${date(at)}>${clock(at)}</time>` : '—')
export function duration(ms) {
  const s = Math.max(0, ms) / 1000
  if (s < 0.95) return Math.round(ms) + ' ms'
  if (s < 120) return own('unit.s', Math.round(s))
  if (s < 7200) return own('unit.min', Math.floor(s / 60))
  if (s < 172_800) return own('unit.h', Math.floor(s / 3600))
  return own('unit.d', Math.floor(s / 86_400))
}
export const since = (iso) => duration(now() - Date.parse(iso))
export const left = (iso) => Math.max(0, Date.parse(iso) - now())

// level says how much of a lease is left: a holder that renews in time never comes below a third.
export const level = (ms, ttl) => (ms <= 0 ? 'gone' : ms < ttl / 3 ? 'low' : 'good')

// smooth is the longest lease, in seconds, that the browser moves on every frame. A longer one moves by less than a few pixels a second: it is moved then,
// so that a page that is open all day draws nothing in between.
const smooth = 60

// Bar is a lease that runs out: as wide as what is left of it.
export class Bar extends Component {
  el = createRef()
  componentDidMount() { this.run() }
  componentDidUpdate() { if (this.props.expires !== this.ran || !this.animation) this.run(this.shown()) }
  componentWillUnmount() { this.animation?.cancel() }
  shown() {
    const m = this.el.current && new DOMMatrixReadOnly(getComputedStyle(this.el.current).transform)
    return m ? 1 + m.e / this.el.current.offsetWidth : 0
  }
  run(from) {
    const { expires, ttl } = this.props
    this.ran = expires
    this.animation?.cancel()
    const ms = left(expires), full = Math.min(1, ms / (ttl * 1000))
    const at = (part) => ({ transform: `translateX(${(part - 1) * 100}%)` })
    this.animation = null
    if (ttl > smooth || ms <= 0 || matchMedia('(prefers-reduced-motion: reduce)').matches) { this.el.current.style.transform = at(full).transform; return }
    const rise = Math.min(350, ms / 2) // a renewal is seen
    this.animation = this.el.current.animate(
      from === undefined ? [at(full), at(0)] : [{ ...at(from), easing: 'ease-out' }, { ...at(full * (1 - rise / ms)), offset: rise / ms }, at(0)],
      { duration: ms, fill: 'forwards' })
  }
  render({ expires, ttl, label }) {
    const ms = left(expires)
    return html`<div class=${'bar ' + level(ms, ttl * 1000)} role="meter" aria-label=${label} aria-valuemin="0" aria-valuemax=${ttl}
      aria-valuenow=${Math.min(ttl, Math.round(ms / 1000))} aria-valuetext=${t('bar.left', { left: duration(ms), ttl: duration(ttl * 1000) })}><div ref=${this.el}></div></div>`
  }
}

// Canvas is a picture that draw(context, width, height, colour) draws whenever its key changes; colour(name) is a colour of the style sheet.
export class Canvas extends Component {
  el = createRef()
  scheme = matchMedia('(prefers-color-scheme: dark)')
  redraw = () => this.draw()
  componentDidMount() { this.scheme.addEventListener('change', this.redraw); this.draw() }
  componentWillUnmount() { this.scheme.removeEventListener('change', this.redraw) }
  componentDidUpdate(before) { if (before.draws !== this.props.draws) this.draw() }
  draw() {
    const c = this.el.current, known = {}
    this.props.draw(c.getContext('2d'), c.width, c.height, (name) => (known[name] ??= (c.style.color = `var(--${name})`, getComputedStyle(c).color)))
    c.style.color = ''
  }
  at = (e) => {
    const r = this.el.current.getBoundingClientRect()
    this.props.onAt?.((e.clientX - r.left) / r.width, (e.clientY - r.top) / r.height)
  }
  render({ width, height, label }) {
    return html`<canvas ref=${this.el} width=${width} height=${height} role="img" aria-label=${label} onPointerMove=${this.at} onPointerDown=${this.at}></canvas>`
  }
}

// Dialog asks for a reason before something is changed. act(reason) does it and may throw a Problem, which is shown.
export class Dialog extends Component {
  el = createRef()
  field = createRef()
  state = { busy: false, error: null }
  componentDidMount() { this.el.current.showModal() }
  submit = async (e) => {
    e.preventDefault()
    const reason = this.field.current.value.trim()
    if (!reason || this.state.busy) return
    this.setState({ busy: true, error: null })
    try {
      await this.props.act(reason)
      this.props.close(true)
    } catch (error) {
      this.setState({ busy: false, error })
    }
  }
  render({ title, what, does, close, children }, { busy, error }) {
    return html`<dialog ref=${this.el} aria-labelledby="asked" onClose=${() => close(false)}>
      <form onSubmit=${this.submit}>
        <h2 id="asked">${title}</h2>
        <p>${what}</p>${children}
        <label for="reason">${t('reason')}</label>
        <textarea id="reason" ref=${this.field} rows="2" maxlength="160" required autofocus></textarea>
        <p class="note">${t('reason.note')}</p>
        ${error && html`<${Failure} error=${error} />`}
        <div class="actions"><button type="button" class="quiet" onClick=${() => this.el.current.close()}>${t('cancel')}</button>
        <button class="danger" disabled=${busy}>${does}</button></div>
      </form></dialog>`
  }
}

// explain is the sentences about a code: what it means and what to do.
export const explain = (code) => (has('code.' + code) ? t('code.' + code) : t('code.unknown', { code }))

// Failure shows why a request failed.
export function Failure({ error }) {
  const p = error instanceof Problem ? error.problem : { code: 'PAGE_FAILED', detail: error.message }
  return html`<div class="failure" role="alert"><b>${explain(p.code)}</b>${p.detail && html`<p><${Text} v=${p.detail} /></p>`}
    <p class="note"><span class="code">${visible(p.code)}</span>${error.requestID && html` · <${Text} v=${error.requestID} mono />`}</p></div>`
}

export const Empty = ({ title, children }) => html`<div class="empty"><h2>${title}</h2>${children}</div>`
export const Command = ({ children }) => html`<pre tabindex="0"><code>${children}</code></pre>`
export const Panel = ({ title, aside, children, id }) => html`<section class="panel" aria-labelledby=${id}><div class="head"><h2 id=${id}>${title}</h2>${aside}</div>${children}</section>`
export const Fact = ({ name, children, level }) => html`<div class=${'fact ' + (level || '')}><dt>${name}</dt><dd>${children}</dd></div>`
export const State = ({ v }) => html`<span class=${'state s-' + String(v).toLowerCase().replace(/[^a-z_]/g, '')}>${has('state.' + v) ? t('state.' + v) : html`<${Text} v=${v} />`}</span>`
export const plural = (key, n) => t(key + (n === 1 ? '.one' : '.many'), { n: number(n) })

// Find is a form of one field, or two.
export const Find = ({ id, label, value, find, does, second, list }) => html`<form class="find" role="search" onSubmit=${(e) => {
  e.preventDefault()
  find(...Array.from(e.target.querySelectorAll('input'), (i) => i.value.trim()))
}}><div class="field"><label for=${id}>${label}</label><input id=${id} key=${value} defaultValue=${value ?? ''} autocomplete="off" autocapitalize="off" spellcheck="false" list=${list && id + 's'} /></div>
  ${list && html`<datalist id=${id + 's'}>${list.map((v) => html`<option key=${v} value=${v} />`)}</datalist>`}
  ${second && html`<div class="field"><label for=${id + '2'}>${second.label}</label><input id=${id + '2'} key=${second.value} defaultValue=${second.value ?? ''} autocomplete="off" autocapitalize="off" spellcheck="false" /></div>`}
  <button>${does || t('find')}</button></form>`

// where a hash leads: the screen, its arguments, and what it is filtered by.
export const to = (path, filters = {}) => {
  const q = new URLSearchParams(Object.entries(filters).filter(([, v]) => v))
  return '#/' + path.map(encodeURIComponent).join('/') + (q.size ? '?' + q : '')
}

// Filters is a form of several fields, each { name, label, value, options? }. What is chosen becomes the address.
export const Filters = ({ id, path, fields, does }) => html`<form class="find filters" role="search" onSubmit=${(e) => {
  e.preventDefault()
  location.hash = to(path, Object.fromEntries(fields.map((f) => [f.name, e.target.elements[f.name].value.trim()])))
}}>${fields.map((f) => html`<div class="field" key=${f.name}><label for=${id + f.name}>${f.label}</label>${f.options
  ? html`<select id=${id + f.name} name=${f.name} key=${f.value}>${f.options.map(([v, text]) => html`<option key=${v} value=${v} selected=${v === (f.value || '')}>${text}</option>`)}</select>`
  : html`<input id=${id + f.name} name=${f.name} key=${f.value} defaultValue=${f.value ?? ''} autocomplete="off" autocapitalize="off" spellcheck="false" />`}</div>`)}
  <button>${does || t('filter')}</button></form>`

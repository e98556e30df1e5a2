// What happened: how the last requests to this process ended, found by their ID; and what a code means.
import { now } from './api.js'
import { html, t, Component, Text, Time, Find, Empty, explain, has, date, duration, plural, number, visible } from './ui.js'
import { overseer, refusals } from './now.js'

async function load({ caller, args: [what, argument], signal, before }) {
  if (what === 'code') return {}
  const page = await refusals(caller, what === 'request' ? { request_id: argument, page_size: 100 } : { after: before?.last, page_size: 200 }, signal)
  if (!page) return { closed: overseer(caller) ? 'happened.off' : 'happened.scope' }
  const list = what === 'request' ? page.outcomes : [...page.outcomes, ...(before?.list || [])].slice(0, 400)
  const older = what !== 'request' && (before?.older || !!page.next_page_token || list.length === 400)
  return { list, older, since: page.since, forgotten: page.forgotten, last: page.outcomes[0]?.number ?? before?.last }
}

// about says in words what a path was about: the last segment is what was done, those before it to what.
function about({ method, path }) {
  const s = path.split('/').slice(2).map((x) => { try { return decodeURIComponent(x) } catch { return x } })
  const rest = s[0] === 'tenants' ? s.slice(2) : s
  const verb = method === 'POST' && rest.length > 1 ? rest.pop() : { GET: 'get', PUT: 'create', DELETE: 'delete', POST: 'post' }[method] || method
  return { verb: verb.replaceAll('-', ' '), thing: rest.join(' / ') }
}

// Explained is why a request was rejected, in words, with what the response said beyond the code.
export function Explained({ p }) {
  return html`<div class="explained"><p>${explain(p.code)}</p>${p.detail && html`<p class="note"><${Text} v=${p.detail} /></p>`}
    <dl class="labels">${[['field'], ['owner_id'], ['expires_at', date], ['retry_after_ms', duration], ['position'], ['highest_token'], ['lock_key'], ['epoch'], ['incarnation']]
      .filter(([f]) => p[f]).map(([f, show]) => html`<div key=${f}><dt>${t('problem.' + f)}</dt><dd><${Text} v=${show ? show(p[f]) : p[f]} /></dd></div>`)}
      <div><dt>${t('problem.retry')}</dt><dd>${t(p.retryable ? 'problem.may' : 'problem.maynot')}</dd></div></dl></div>`
}

// Outcome is one request. What is behind its line is made when it is opened: a list of hundreds would be thousands of elements.
class Outcome extends Component {
  state = { open: !!this.props.open }
  render({ o }, { open }) {
    const { verb, thing } = about(o), bad = o.problem, tone = !bad ? 'good' : o.status >= 500 ? 'gone' : 'low'
    return html`<li><details open=${open} onToggle=${(e) => this.setState({ open: e.target.open })}><summary><${Time} at=${o.at} /><span class=${'code ' + tone}>${bad ? visible(bad.code) : 'OK'}</span><span class="what"><b>${visible(verb)}</b> <${Text} v=${thing} /></span><span class="by"><${Text} v=${o.subject || o.owner_id || ''} cut /></span></summary>
    ${open && html`${bad && html`<${Explained} p=${bad} />`}
    <dl class="labels"><div><dt>${t('happened.request')}</dt><dd><${Text} v=${o.request_id} mono /></dd></div><div><dt>${t('happened.http')}</dt><dd><span class="mono">${o.method} ${o.status}</span> · ${t('happened.took', { ms: o.took_ms })}</dd></div>
      ${o.tenant_id && html`<div><dt>${t('tenant')}</dt><dd><${Text} v=${o.tenant_id} /></dd></div>`}${o.action && html`<div><dt>${t('happened.action')}</dt><dd class="mono">${o.action}</dd></div>`}
      ${o.owner_id && html`<div><dt>${t('happened.owner')}</dt><dd><${Text} v=${o.owner_id} /></dd></div>`}${o.reason && html`<div><dt>${t('reason')}</dt><dd><${Text} v=${o.reason} /></dd></div>`}</dl>`}</details></li>`
  }
}

export const Outcomes = ({ list, open }) => html`<ol class="outcomes">${list.map((o) => html`<${Outcome} key=${o.number} o=${o} open=${open} />`)}</ol>`

// go takes what one searches for to its place: a code, the ID of a request, or a whole problem document.
function go(text) {
  try {
    const p = JSON.parse(text)
    text = p.instance?.replace(/^urn:request:/, '') || p.code || text
  } catch { /* it is no document */ }
  const code = text.toUpperCase().replace(/[\s-]/g, '_')
  location.hash = !text ? '#/happened' : has('code.' + code) ? '#/happened/code/' + code : '#/happened/request/' + encodeURIComponent(text)
}

class View extends Component {
  state = { show: 'all', most: 100 }
  render({ data: { list, older, since, forgotten, closed }, args: [what, argument] }, { show, most }) {
    const find = html`<${Find} id="search" label=${t('happened.search')} value=${argument} find=${go} does=${t('explain')} />`
    if (what === 'code') return html`${find}<section class="panel"><h2 class="mono">${visible(argument)}</h2><p>${explain(argument)}</p><p><a href="#/happened">${t('happened.all')}</a></p></section>`
    if (closed) return html`${find}<${Empty} title=${t('happened.closed')}><p>${t(closed)}</p><//>`
    const shown = list.filter((o) => show === 'all' || (show === 'refused') === !!o.problem)
    return html`${find}
      <p class="banner">${t('happened.process', { since: date(since) })} ${forgotten > 0 && plural('happened.forgotten', forgotten)} ${older && t('happened.older')}</p>
      ${what === 'request' ? html`<p><a href="#/happened">${t('happened.all')}</a></p>` : html`<div class="choices" role="group" aria-label=${t('happened.show')}>${['all', 'refused', 'done'].map((s) => html`<button key=${s} class="tag" aria-pressed=${String(s === show)} onClick=${() => this.setState({ show: s })}>${t('show.' + s)}</button>`)}</div>`}
      ${shown.length > most && html`<p class="note">${t('happened.first', { n: number(most), of: number(shown.length) })}</p>`}
      ${shown.length ? html`<${Outcomes} list=${shown.slice(0, most)} open=${what === 'request'} />${shown.length > most && html`<p class="actions"><button class="quiet" onClick=${() => this.setState({ most: most + 100 })}>${t('happened.more')}</button></p>`}` : html`<${Empty} title=${t(what === 'request' ? 'happened.unknown' : 'happened.empty')}><p>${t(what === 'request' ? 'happened.unknownwhy' : 'happened.teach')}</p><//>`}`
  }
}

export default { id: 'happened', icon: 'M12 7v5l3 2M12 3a9 9 0 1 1-9 9M3 5v4h4', every: 3000, load, View }

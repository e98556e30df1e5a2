// Work: the analyses by state, who runs them, how often they failed; and one run, by its name. Administrators can retry an analysis that FAILED.
import { get, post, path, query, requestID, Problem } from './api.js'
import { html, t, Component, Text, Time, Bar, Fact, Panel, Find, Empty, Command, State, Dialog, Failure, duration, left, number, plural, visible, has } from './ui.js'
import { me } from './lock.js'

async function load({ tenant, caller, args: [prefix], signal }) {
  const sees = caller.worker || caller.administrator
  const [runs, analyses] = await Promise.all([
    get(path('tenants', tenant, 'runs') + query({ prefix, page_size: 50 }), { signal }),
    sees ? get('v1/analyses' + query({ prefix, page_size: 100 }), { signal }) : null,
  ])
  const unreadable = [...(analyses?.body.unreadable || []), ...(runs.body.unreadable || [])].map((u) => ({ id: u.analysis_id || u.run_id, code: u.code }))
  return { list: sees ? analyses.body.analyses : null, more: !!analyses?.body?.next_page_token, runs: runs.body.runs, moreRuns: !!runs.body.next_page_token, unreadable }
}

const order = ['RUNNING', 'STALE', 'FAILED', 'PENDING', 'READY']
// stateOf is RUNNING while a worker has the lock, and STALE if one had it and it expired: the next delivery, or the sweep, takes over.
const stateOf = (a) => (a.locked ? 'RUNNING' : !a.finished && a.owner_id ? 'STALE' : a.status || 'PENDING')

const runState = (r) => (r.locked ? 'RUNNING' : r.status || 'INTERRUPTED')

// takeovers is how many runs before the current one ended without a word: their workers died.
const takeovers = (a) => Math.max(0, a.runs - 1)

class Terms extends Component {
  // The analysis shows when a lock ends, and not for how long it was: five minutes unless its worker said otherwise, or as long as was seen.
  longest = 300
  render({ a }) {
    this.longest = Math.max(this.longest, left(a.expires_at) / 1000)
    return html`<div class="lease"><${Text} v=${a.owner_id} cut /><${Bar} expires=${a.expires_at} ttl=${Math.ceil(this.longest)} label=${visible(a.owner_id)} /><span class="left">${duration(left(a.expires_at))}</span></div>`
  }
}

const Item = ({ a, id, retry }) => html`<li class="work"><div class="row"><${Text} v=${id} mono cut /><span class="tags">${a.failures > 0 && html`<span class="tag hot">${plural('failures', a.failures)}</span>`}${takeovers(a) > 0 && html`<span class="tag warm">${plural('takeovers', takeovers(a))}</span>`}</span>
    ${retry && html`<button class="quiet" onClick=${() => retry(a)}>${t('work.retry')}<span class="unseen"> ${visible(id)}</span></button>`}</div>
  ${a.locked && a.expires_at && html`<${Terms} a=${a} />`}
  ${stateOf(a) === 'STALE' && html`<p class="note">${t('work.stale')} <${Text} v=${a.owner_id} />${a.expires_at && html`, <${Time} at=${a.expires_at} />`}</p>`}
  ${a.failure_reason && html`<p class="note why"><${Text} v=${a.failure_reason} /></p>`}
  ${a.result && html`<details><summary>${t('work.result')}</summary><pre tabindex="0"><${Text} v=${a.result.slice(0, 2000)} /></pre></details>`}
  ${a.finished_at && html`<p class="note">${t('work.finished')} <${Time} at=${a.finished_at} /></p>`}
  ${a.retry && html`<p class="note">${t('work.retried')} <${Text} v=${a.retry.by} />, <${Time} at=${a.retry.at} />: <q><${Text} v=${a.retry.reason} /></q></p>`}</li>`

// Runs lists the runs of the tenant, and reads one with its result.
class Runs extends Component {
  state = {}
  find = async (id) => {
    if (!id) return
    this.setState({ run: null, error: null, none: null })
    try {
      this.setState({ run: (await get(path('tenants', this.props.tenant, 'runs', id))).body })
    } catch (error) {
      this.setState(error instanceof Problem && error.status === 404 ? { none: id } : { error })
    }
  }
  render({ runs, more }, { run, error, none }) {
    return html`<${Panel} id="runs" title=${t('runs')}><p class="note">${t('run.what')}</p>
      ${runs.length > 0 && html`<ul class="plain">${runs.map((r) => html`<li key=${r.run_id} class="row"><${Text} v=${r.run_id} mono cut /><${State} v=${runState(r)} />${takeovers(r) > 0 && html`<span class="tag warm">${plural('takeovers', takeovers(r))}</span>`}${r.failures > 0 && html`<span class="tag hot">${plural('failures', r.failures)}</span>`}<span class="note"><${Text} v=${r.owner_id || ''} cut /></span></li>`)}</ul>`}
      ${more && html`<p class="note">${t('run.more')}</p>`}
      <${Find} id="run" label=${t('run.name')} find=${this.find} />
      ${error && html`<${Failure} error=${error} />`}${none && html`<p role="status">${t('run.none', { id: none })}</p>`}
      ${run && html`<ul class="plain"><li><${State} v=${runState(run)} /></li><${Item} a=${run} id=${run.run_id} /></ul>`}<//>`
  }
}

class View extends Component {
  state = { asks: null }
  retry = async (reason) => {
    const a = this.state.asks
    await post(path('analyses', a.analysis_id, 'retry'), { request_id: requestID(), reason, ...(a.finished_at && { finished_at: a.finished_at }), ...me(this.props.caller) })
  }
  render({ data: { list, more, runs, moreRuns, unreadable }, args: [prefix], caller, tenant, again }, { asks }) {
    const find = html`<${Find} id="prefix" label=${t('work.prefix')} value=${prefix} find=${(p) => { location.hash = '#/work' + (p ? '/' + encodeURIComponent(p) : '') }} does=${t('filter')} />`
    const run = html`<${Runs} tenant=${tenant} runs=${runs} more=${moreRuns} />`
    if (!list) return html`${find}<${Empty} title=${t('work.closed')}><p>${t('work.scope')}</p><//>${run}`
    const by = new Map(order.map((s) => [s, []]))
    for (const a of list) (by.get(stateOf(a)) || by.set(stateOf(a), []).get(stateOf(a))).push(a)
    const name = (s) => (has('state.' + s) ? t('state.' + s) : visible(s))
    return html`<dl class="facts">${[...by].filter(([s, l]) => s !== 'STALE' || l.length).map(([s, l]) => html`<${Fact} key=${s} name=${name(s)} level=${!l.length ? '' : s === 'FAILED' ? 'gone' : s === 'STALE' ? 'low' : ''}>${number(l.length)}${more && '+'}<//>`)}</dl>
      ${find}
      ${list.length === 0 && html`<${Empty} title=${t(prefix ? 'work.nomatch' : 'work.empty')}><p>${t('work.teach')}</p><${Command}>leasehold once nightly-report -- ./report.sh<//><//>`}
      ${[...by].filter(([, l]) => l.length).map(([s, l]) => html`<section key=${s} aria-labelledby=${'g-' + s}><h2 class="group" id=${'g-' + s}>${name(s)}</h2>
        <ul class="locks">${l.map((a) => html`<${Item} key=${a.analysis_id} a=${a} id=${a.analysis_id} retry=${s === 'FAILED' && caller.administrator && ((asks) => this.setState({ asks }))} />`)}</ul></section>`)}
      ${unreadable.length > 0 && html`<${Panel} id="unreadable" title=${t('work.unreadable')}><ul class="plain">${unreadable.map((u) => html`<li key=${u.id}><${Text} v=${u.id} mono /> <span class="code">${u.code}</span></li>`)}</ul><//>`}
      ${more && html`<p class="note">${t('work.more')}</p>`}${run}
      ${asks && html`<${Dialog} title=${t('work.retry')} what=${t('work.retries', { id: asks.analysis_id })} does=${t('work.retry')} act=${this.retry} close=${(done) => { this.setState({ asks: null }); if (done) again() }} />`}`
  }
}

export default { id: 'work', icon: 'M4 7h16v12H4zM9 7V4h6v3M4 12h16', every: 5000, load, View }

// Work: the analyses and the runs by state, who runs them, how often they failed; one of them, with what was asked about it. Administrators can
// retry analyses that FAILED, one or many.
import { get, post, path, query, requestID, Problem } from './api.js'
import { html, t, Component, Text, Time, Bar, Fact, Panel, Find, Filters, Empty, Command, State, Dialog, duration, left, number, plural, visible, has, to, explain } from './ui.js'
import { Survey, Looked, Pages, pagesOf } from './survey.js'
import { refusals } from './now.js'
import { Outcomes } from './happened.js'
import { Had } from './had.js'
import { me } from './lock.js'

const surveys = { analyses: new Survey('analyses'), runs: new Survey('runs') }
const urgent = (a, is) => ['STALE', 'FAILED'].includes(is(a)) || (!a.locked && !a.finished && a.failures > 0)

// list reads a page, and sees to it that all are counted.
async function list(kind, about, is, { q, signal, changed }, size) {
  const prefix = q.get('prefix'), owner_id = q.get('owner'), state = q.get('state'), tokens = pagesOf(q.get(kind))
  const { body } = await get(about + query({ prefix, owner_id, state, page_size: size, page_token: tokens.at(-1) }), { signal })
  if (!tokens.length && !body.next_page_token && !owner_id && !state) surveys[kind].whole(about + prefix, body.counts, body[kind].filter((a) => urgent(a, is)))
  else surveys[kind].read(about, { prefix }, signal, changed)
  return { list: body[kind], counts: body.counts, next: body.next_page_token, tokens, unreadable: body.unreadable || [] }
}

// one reads an analysis or a run, and what this process was asked about it.
async function one(kind, id, { tenant, caller, signal }) {
  const about = kind === 'run' ? path('tenants', tenant, 'runs', id) : path('analyses', id)
  const [a, outcomes] = await Promise.all([
    get(about, { signal }).then((r) => r.body, (e) => { if (e instanceof Problem && e.status === 404) return null; throw e }),
    refusals(caller, { path: '/' + about + '/', page_size: 20 }, signal),
  ])
  return { kind, id, one: a, outcomes: outcomes?.outcomes }
}

async function load(of) {
  const { tenant, caller, args: [kind, id] } = of
  if (id && (kind === 'run' || kind === 'analysis')) return one(kind, id, of)
  const sees = caller.worker || caller.administrator
  const [runs, analyses] = await Promise.all([
    list('runs', path('tenants', tenant, 'runs'), runState, of, 50),
    sees ? list('analyses', 'v1/analyses', stateOf, of, 100) : null,
  ])
  const unreadable = [...(analyses?.unreadable || []), ...runs.unreadable].map((u) => ({ id: u.analysis_id || u.run_id, code: u.code }))
  return { analyses, runs, unreadable }
}

const order = ['FAILED', 'STALE', 'RUNNING', 'PENDING', 'INTERRUPTED', 'READY']
// stateOf is RUNNING while a worker has the lock, and STALE if one had it and it expired: the next delivery, or the sweep, takes over.
const stateOf = (a) => (a.locked ? 'RUNNING' : !a.finished && a.owner_id ? 'STALE' : a.status || 'PENDING')

const runState = (r) => (r.locked ? 'RUNNING' : r.status || (r.owner_id ? 'STALE' : 'INTERRUPTED'))

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

const Item = ({ a, id, kind, retry }) => html`<li class="work"><div class="row"><a class="key" href=${to(['work', kind, id])}><${Text} v=${id} mono cut /></a><span class="tags">${a.failures > 0 && html`<span class="tag hot">${plural('failures', a.failures)}</span>`}${takeovers(a) > 0 && html`<span class="tag warm">${plural('takeovers', takeovers(a))}</span>`}</span>
    ${retry && html`<button class="quiet" onClick=${() => retry(a)}>${t('work.retry')}<span class="unseen"> ${visible(id)}</span></button>`}</div>
  ${a.locked && a.expires_at && html`<${Terms} a=${a} />`}
  ${stateOf(a) === 'STALE' && html`<p class="note">${t('work.stale')} <${Text} v=${a.owner_id} />${a.expires_at && html`, <${Time} at=${a.expires_at} />`}</p>`}
  ${a.failure_reason && html`<p class="note why"><${Text} v=${a.failure_reason} /></p>`}
  ${a.result && html`<details><summary>${t('work.result')}</summary><pre tabindex="0"><${Text} v=${a.result} /></pre></details>`}
  ${a.finished_at && html`<p class="note">${t('work.finished')} <${Time} at=${a.finished_at} /></p>`}
  ${a.retry && html`<p class="note">${t('work.retried')} <${Text} v=${a.retry.by} />, <${Time} at=${a.retry.at} />: <q><${Text} v=${a.retry.reason} /></q></p>`}</li>`

const name = (s) => (has('state.' + s) ? t('state.' + s) : visible(s))

// Groups are items by their state, those that need a look first.
const Groups = ({ id, items, kind, is, retry }) => {
  const by = new Map(order.map((s) => [s, []]))
  for (const a of items) (by.get(is(a)) || by.set(is(a), []).get(is(a))).push(a)
  return [...by].filter(([, l]) => l.length).map(([s, l]) => html`<section key=${s} aria-labelledby=${id + s}><h2 class="group" id=${id + s}>${name(s)}</h2>
    <ul class="locks">${l.map((a) => { const n = a.analysis_id || a.run_id; return html`<${Item} key=${n} a=${a} id=${n} kind=${kind} retry=${s === 'FAILED' && retry} />` })}</ul></section>`)
}

// Counts are how many there are in each state.
const Counts = ({ of }) => html`<dl class="facts">${[['failed', 'FAILED', 'gone'], ['stale', 'STALE', 'low'], ['running', 'RUNNING'], ['pending', 'PENDING'], ['ready', 'READY']]
  .map(([c, s, tone]) => html`<${Fact} key=${s} name=${name(s)} level=${of.sum?.counts[c] ? tone || '' : ''}>${of.count((n) => n[c])}<//>`)}</dl>`

// Part is a list with its counts, what needs a look, and the page.
const Part = ({ kind, one, data, q, is, filters, again, retry, other }) => {
  const survey = surveys[kind], first = !data.tokens.length && !q.get('owner') && !q.get('state'), id = (a) => a.analysis_id || a.run_id
  const look = first ? survey.sum?.urgent || [] : [], shown = new Map(data.list.map((a) => [id(a), a])), found = new Set(look.map(id))
  const all = [...look.map((a) => shown.get(id(a)) || a), ...data.list.filter((a) => !found.has(id(a)))]
  return html`<${Counts} of=${survey} /><${Looked} of=${survey} again=${again} />${survey.failed && html`<p class="note" role="status">${t('survey.failed')}</p>`}
    ${all.length > 0 && html`<${Groups} id=${kind + '-'} items=${all} kind=${one} is=${is} retry=${retry} />`}
    ${all.length === 0 && (data.next || Object.values(filters).some(Boolean)) && html`<p class="note">${t(data.next ? 'page.none' : 'work.nomatch')}</p>`}
    <${Pages} link=${(page) => to(['work'], { ...filters, ...other, [kind]: page })} tokens=${data.tokens} next=${data.next} n=${data.list.length} counts=${data.counts} />`
}

const states = ['', 'FAILED', 'STALE', 'RUNNING', 'PENDING', 'READY']

// One is an analysis or a run by itself.
const One = ({ data: { kind, id, one: a, outcomes }, retry, tenant, caller }) => {
  const is = kind === 'run' ? runState : stateOf
  return html`<p><a href="#/work">${t('work.all')}</a></p>${!a ? html`<${Empty} title=${t(kind === 'run' ? 'run.none' : 'work.missing', { id })}><p>${t('lock.nonewhy')}</p><//>`
    : html`<${Panel} id="one" title=${html`<${Text} v=${id} mono />`} aside=${html`<${State} v=${is(a)} />${a.status && a.status !== is(a) && html`<span class="tag"><${Text} v=${a.status} /></span>`}`}>
      <ul class="plain"><${Item} a=${a} id=${id} kind=${kind} retry=${is(a) === 'FAILED' && kind === 'analysis' && retry} /></ul>
      <dl class="labels"><div><dt>${t('work.runs')}</dt><dd>${number(a.runs)}</dd></div><div><dt>${t('work.failures')}</dt><dd>${number(a.failures)}</dd></div></dl><//>`}
    <${Had} key=${kind + id} of=${{ kind, key: id, ...(kind === 'run' && { tenant_id: tenant }) }} caller=${caller} />
    ${outcomes && html`<${Panel} id="requests" title=${t('lock.requests')}>${outcomes.length ? html`<${Outcomes} list=${outcomes} />` : html`<p class="note">${t('work.norequests')}</p>`}<//>`}`
}

class View extends Component {
  state = { asks: null, done: null } // the analyses to retry
  retry = async (reason) => {
    const one = (a) => post(path('analyses', a.analysis_id, 'retry'), { request_id: requestID(), reason, ...(a.finished_at && { finished_at: a.finished_at }), ...me(this.props.caller) })
    const { asks } = this.state
    if (asks.length === 1) return void await one(asks[0])
    const refused = []
    let done = 0
    for (const a of asks) {
      try {
        await one(a)
        done++
      } catch (e) {
        if (!(e instanceof Problem)) throw e
        refused.push([a.analysis_id, e.problem.code])
        if (e.status === 0 || e.status === 401 || e.status === 429 || e.status >= 500) { // the others would fare no better
          refused.push(...asks.slice(done + refused.length).map((x) => [x.analysis_id, 'NOT_SENT']))
          break
        }
      }
    }
    this.setState({ done: { done, refused } })
  }
  render({ data, q, caller, tenant, again }, { asks, done }) {
    const ask = caller.administrator && ((a) => this.setState({ asks: [a], done: null }))
    const dialog = asks && html`<${Dialog} title=${t('work.retry')} what=${asks.length > 1 ? plural('work.retrymany', asks.length) : t('work.retries', { id: asks[0].analysis_id })} does=${t('work.retry')} act=${this.retry} close=${(did) => { this.setState({ asks: null }); if (did) { surveys.analyses.dated(); again() } }}>
      ${asks.length > 1 && html`<ul class="preview" tabindex="0" aria-label=${t('work.preview')}>${asks.map((a) => html`<li key=${a.analysis_id}><${Text} v=${a.analysis_id} mono /> <span class="note"><${Text} v=${a.failure_reason || ''} cut /></span></li>`)}</ul>`}<//>`
    if (data.kind) return html`<${One} data=${data} retry=${ask} tenant=${tenant} caller=${caller} />${dialog}`
    const { analyses, runs, unreadable } = data
    const filters = { prefix: q.get('prefix'), owner: q.get('owner'), state: q.get('state') }
    const failed = [...new Map([...(filters.owner || filters.state || analyses?.tokens.length ? [] : surveys.analyses.sum?.urgent || []), ...(analyses?.list || [])].filter((a) => stateOf(a) === 'FAILED').map((a) => [a.analysis_id, a])).values()].slice(0, 100)
    return html`<${Filters} id="by-" path=${['work']} fields=${[{ name: 'prefix', label: t('work.prefix'), value: filters.prefix }, { name: 'owner', label: t('happened.owner'), value: filters.owner },
        { name: 'state', label: t('state'), value: filters.state, options: states.map((s) => [s, s ? name(s) : t('show.all')]) }]} />
      ${!analyses ? html`<${Empty} title=${t('work.closed')}><p>${t('work.scope')}</p><//>` : html`
        ${done && html`<div class="banner" role="status"><p>${plural('work.did', done.done)}</p>${done.refused.length > 0 && html`<ul>${done.refused.map(([id, code]) => html`<li key=${id}><${Text} v=${id} mono /> <span class="code">${visible(code)}</span> ${code === 'NOT_SENT' ? t('work.notsent') : explain(code)}</li>`)}</ul>`}</div>`}
        <${Part} kind="analyses" one="analysis" data=${analyses} q=${q} is=${stateOf} filters=${filters} again=${again} retry=${ask} other=${{ runs: q.get('runs') }} />
        ${caller.administrator && failed.length > 1 && html`<p class="actions"><button class="quiet danger" onClick=${() => this.setState({ asks: failed, done: null })}>${t('work.retryall', { n: failed.length })}</button></p>`}
        ${!analyses.list.length && !analyses.next && !analyses.tokens.length && !Object.values(filters).some(Boolean) && html`<${Empty} title=${t('work.empty')}><p>${t('work.teach')}</p><${Command}>leasehold once nightly-report -- ./report.sh<//><//>`}
        <${Find} id="analysis" label=${t('work.name')} find=${(id) => { if (id) location.hash = to(['work', 'analysis', id]) }} />`}
      ${unreadable.length > 0 && html`<${Panel} id="unreadable" title=${t('work.unreadable')}><ul class="plain">${unreadable.map((u) => html`<li key=${u.id}><${Text} v=${u.id} mono /> <span class="code">${u.code}</span></li>`)}</ul><//>`}
      <${Panel} id="runs" title=${t('runs')}><p class="note">${t('run.what')}</p>
        <${Part} kind="runs" one="run" data=${runs} q=${q} is=${runState} filters=${filters} again=${again} other=${{ analyses: q.get('analyses') }} />
        <${Find} id="run" label=${t('run.name')} find=${(id) => { if (id) location.hash = to(['work', 'run', id]) }} /><//>
      ${dialog}`
  }
}

export default { id: 'work', icon: 'M4 7h16v12H4zM9 7V4h6v3M4 12h16', every: 5000, load, View }

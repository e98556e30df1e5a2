// Work: what must not run twice, by its state: the runs of the tenant, and the analyses for those who see them; who runs it, how often it failed;
// one of them by its name, with what was asked about it. A run can be retried, run again and removed; an analysis retried, by operators.
import { get, post, path, query, requestID, Problem } from './api.js'
import { html, t, Component, Text, Time, Bar, Fact, Panel, Find, Filters, Empty, Command, State, Dialog, date, duration, left, number, plural, visible, to, explain } from './ui.js'
import { Survey, Looked, Pages, pagesOf, total } from './survey.js'
import { refusals, flagOf } from './now.js'
import { Outcomes } from './happened.js'
import { Had } from './had.js'
import { me } from './lock.js'

const survey = new Survey()

const kindOf = (a) => (a.run_id === undefined ? 'analysis' : 'run')
const idOf = (a) => a.run_id ?? a.analysis_id
const keyOf = (a) => kindOf(a) + '/' + idOf(a)

// about is the path of all of a kind, of one, or of what is done to it.
const about = (kind, tenant, ...rest) => (kind === 'run' ? path('tenants', tenant, 'runs', ...rest) : path('analyses', ...rest))

// listsOf are the paths of what the caller sees, by the names of their entries. Analyses belong to no tenant.
const listsOf = (tenant, caller) => ({ runs: about('run', tenant), ...((caller.worker || caller.operator) && { analyses: about('analysis') }) })

const states = ['FAILED', 'STALE', 'RUNNING', 'PENDING', 'READY'] // those that need a look first

// stateOf is what the API calls so, whatever another program writes into the status of an analysis.
const stateOf = (a) => (a.locked ? 'RUNNING' : a.finished ? a.status : a.owner_id ? 'STALE' : 'PENDING')
const urgent = (a) => ['STALE', 'FAILED'].includes(stateOf(a)) || (stateOf(a) === 'PENDING' && a.failures > 0)

// acts are what can be done to work by those who see it, and to which.
const acts = {
  retry: (a, caller) => stateOf(a) === 'FAILED' && (kindOf(a) === 'run' || caller.operator),
  again: (a) => stateOf(a) === 'READY' && kindOf(a) === 'run',
  remove: (a) => stateOf(a) !== 'RUNNING' && kindOf(a) === 'run',
}

// one reads what has a name: the first of some kinds that there is, and what this process was asked about it; or all of them, if they are several.
async function one(kinds, id, { tenant, caller, signal }) {
  const all = await Promise.all(kinds.map((kind) => get(about(kind, tenant, id), { signal }).then((r) => r.body, (e) => { if (e instanceof Problem && e.status === 404) return null; throw e })))
  const found = all.filter(Boolean), kind = found[0] ? kindOf(found[0]) : kinds[0]
  return { kind, id, found, outcomes: found.length < 2 && (await refusals(caller, { path: '/' + about(kind, tenant, id) + '/', page_size: 20 }, signal))?.outcomes }
}

// analysesAt is before the token of a page in the address that begins among the analyses.
const analysesAt = '~'

async function load(of) {
  const { tenant, caller, args: [kind, id], q, signal, changed } = of, lists = listsOf(tenant, caller)
  if (id) return one(['run', 'analysis'].includes(kind) ? [kind] : lists.analyses ? ['run', 'analysis'] : ['run'], id, of)
  const prefix = q.get('prefix'), owner_id = q.get('owner'), state = q.get('state'), tokens = pagesOf(q.get('page')), at = tokens.at(-1) || ''
  const first = !at && !owner_id && !state, data = { work: [], counts: {}, unreadable: [], tokens, first }
  for (const [name, list] of Object.entries(lists)) { // where the runs end, the analyses follow
    const mark = name === 'runs' ? '' : analysesAt, here = at.startsWith(analysesAt) === !!mark
    if (!here && !mark) continue
    const { body } = await get(list + query({ prefix, owner_id, state, page_size: 100, page_token: here ? at.slice(mark.length) : '' }), { signal })
    data.work.push(...body[name])
    data.unreadable.push(...(body.unreadable || []))
    total(data.counts, body.counts)
    if (body.next_page_token) {
      data.next = mark + body.next_page_token
      break
    }
  }
  if (first && !data.next) survey.whole(data.counts, data.work.filter(urgent))
  else survey.read(lists, { prefix }, signal, changed)
  return data
}

// takeovers is how many runs before the current one ended without a word: their workers died.
const takeovers = (a) => Math.max(0, a.runs - 1)

class Terms extends Component {
  // It is shown when a lock ends, and not for how long it was: five minutes unless its worker said otherwise, or as long as was seen.
  longest = 300
  render({ a }) {
    this.longest = Math.max(this.longest, left(a.expires_at) / 1000)
    return html`<div class="lease"><${Text} v=${a.owner_id} cut /><${Bar} expires=${a.expires_at} ttl=${Math.ceil(this.longest)} label=${visible(a.owner_id)} /><span class="left">${duration(left(a.expires_at))}</span></div>`
  }
}

const Act = ({ a, act, ask }) => html`<button class=${act === 'remove' ? 'quiet danger' : 'quiet'} onClick=${() => ask(act, a)}>${t('work.' + act)}<span class="unseen"> ${visible(idOf(a))}</span></button>`

const times = { due_at: 'work.due', finished_at: 'work.finished', kept_until: 'work.kept' }

const Item = ({ a, children }) => html`<li class="work"><div class="row"><a class="key" href=${to(['work', kindOf(a), idOf(a)])}><${Text} v=${idOf(a)} mono cut /></a><span class="tags">${kindOf(a) === 'analysis' && html`<span class="tag">${t('work.analysis')}</span>`}${a.status && ![stateOf(a), 'PENDING'].includes(a.status) && html`<span class="tag"><${Text} v=${a.status} /></span>`}${a.failures > 0 && html`<span class="tag hot">${plural('failures', a.failures)}</span>`}${takeovers(a) > 0 && html`<span class="tag warm">${plural('takeovers', takeovers(a))}</span>`}</span>${children}</div>
  ${a.locked && a.expires_at && html`<${Terms} a=${a} />`}
  ${stateOf(a) === 'STALE' && html`<p class="note">${t('work.stale')} <${Text} v=${a.owner_id} />${a.expires_at && html`, <${Time} at=${a.expires_at} />`}</p>`}
  ${a.failure_reason && html`<p class="note why"><${Text} v=${a.failure_reason} /></p>`}
  ${a.result && html`<details><summary>${t('work.result')}</summary><pre tabindex="0"><${Text} v=${a.result} /></pre></details>`}
  ${Object.keys(times).some((f) => a[f]) && html`<p class="note">${Object.keys(times).filter((f) => a[f]).map((f) => t(times[f], { at: date(a[f]) })).join(' · ')}</p>`}
  ${a.retry && html`<p class="note">${t('work.retried')} <${Text} v=${a.retry.by} />, <${Time} at=${a.retry.at} />: <q><${Text} v=${a.retry.reason} /></q></p>`}</li>`

// Group is what is in one state.
const Group = ({ state, items, caller, ask }) => items.length > 0 && html`<section aria-labelledby=${state}><h2 class="group" id=${state}>${t('state.' + state)}</h2>
  <ul class="locks">${items.map((a) => html`<${Item} key=${keyOf(a)} a=${a}>${acts.retry(a, caller) && html`<${Act} a=${a} act="retry" ask=${ask} />`}<//>`)}</ul></section>`

const Counts = () => html`<dl class="facts">${states.map((s) => html`<${Fact} key=${s} name=${t('state.' + s)} level=${survey.sum?.counts[s.toLowerCase()] && { FAILED: 'gone', STALE: 'low' }[s]}>${survey.count((c) => c[s.toLowerCase()])}<//>`)}</dl>`

// One is what has a name.
const One = ({ data: { kind, id, found: [a, other], outcomes }, ask, tenant, caller }) => {
  const all = html`<p><a href="#/work">${t('work.all')}</a></p>`
  if (other) return html`${all}<p>${t('work.both', { id })}</p><ul class="locks"><${Item} a=${a} /><${Item} a=${other} /></ul>`
  const may = a && Object.keys(acts).filter((act) => acts[act](a, caller))
  return html`${all}${!a ? html`<${Empty} title=${t('work.missing', { id })}><p>${t('work.gone')}</p><//>`
    : html`<${Panel} id="one" title=${html`<${Text} v=${id} mono />`} aside=${html`<${State} v=${stateOf(a)} />`}>
      <ul class="plain"><${Item} a=${a} /></ul>
      <dl class="labels"><div><dt>${t('work.runs')}</dt><dd>${number(a.runs)}</dd></div><div><dt>${t('work.failures')}</dt><dd>${number(a.failures)}</dd></div></dl>
      ${may.length > 0 && html`<div class="actions">${may.map((act) => html`<${Act} key=${act} a=${a} act=${act} ask=${ask} />`)}</div>`}<//>`}
    <${Had} key=${kind + id} of=${{ kind, key: id, ...(kind === 'run' && { tenant_id: tenant }) }} caller=${caller} />
    ${outcomes && html`<${Panel} id="requests" title=${t('lock.requests')}>${outcomes.length ? html`<${Outcomes} list=${outcomes} />` : html`<p class="note">${t('work.norequests')}</p>`}<//>`}`
}

class View extends Component {
  state = { asks: null, done: null } // what is to be done, and to which; the request has one ID, so that sent twice it is done once
  ask = (act, ...list) => this.setState({ asks: { act, list, request_id: requestID() }, done: null })
  does = async (reason) => {
    const { tenant, caller } = this.props, { act, list, request_id } = this.state.asks
    const one = (a) => post(about(kindOf(a), tenant, idOf(a), act), { request_id, reason, ...(act !== 'remove' && a.finished_at && { finished_at: a.finished_at }), ...me(caller) })
    if (list.length === 1) return void await one(list[0])
    const refused = []
    let done = 0
    for (const a of list) {
      try {
        await one(a)
        done++
      } catch (e) {
        if (!(e instanceof Problem)) throw e
        refused.push([a, e.problem.code])
        if (e.status === 0 || e.status === 401 || e.status === 429 || e.status >= 500) { // the others would fare no better
          refused.push(...list.slice(done + refused.length).map((x) => [x, 'NOT_SENT']))
          break
        }
      }
    }
    this.setState({ done: { done, refused } })
  }
  render({ data, q, caller, tenant, again }, { asks, done }) {
    const many = asks?.list.length > 1
    const dialog = asks && html`<${Dialog} title=${t('work.' + asks.act)} what=${many ? t('work.retrymany', { n: number(asks.list.length) }) : t(`work.${asks.act}.does`, { id: idOf(asks.list[0]) })} does=${t('work.' + asks.act)} act=${this.does} close=${(did) => { this.setState({ asks: null }); if (did) { survey.dated(); again() } }}>
      ${many && html`<ul class="preview" tabindex="0" aria-label=${t('work.preview')}>${asks.list.map((a) => html`<li key=${keyOf(a)}><${Text} v=${idOf(a)} mono /> <span class="note"><${Text} v=${a.failure_reason || ''} cut /></span></li>`)}</ul>`}<//>`
    if (data.found) return html`<${One} data=${data} ask=${this.ask} tenant=${tenant} caller=${caller} />${dialog}`
    const { work, counts, unreadable, tokens, next, first } = data, filters = { prefix: q.get('prefix'), owner: q.get('owner'), state: q.get('state') }
    // What needs a look, as the page has it if it does, and the rest of the page.
    const all = [...new Map([...(first && survey.sum?.urgent || []), ...work].map((a) => [keyOf(a), a])).values()].sort((a, b) => (kindOf(b) === 'run') - (kindOf(a) === 'run'))
    const failed = all.filter((a) => acts.retry(a, caller)).slice(0, 100)
    return html`<${Counts} /><${Looked} of=${survey} again=${again} />${survey.failed && html`<p class="note" role="status">${t('survey.failed')}</p>`}
      <${Filters} id="by-" path=${['work']} fields=${[{ name: 'prefix', label: t('work.prefix'), value: filters.prefix }, { name: 'owner', label: t('happened.owner'), value: filters.owner },
        { name: 'state', label: t('state'), value: filters.state, options: ['', ...states].map((s) => [s, t(s ? 'state.' + s : 'show.all')]) }]} />
      ${done && html`<div class="banner" role="status"><p>${t('work.did', { n: number(done.done) })}</p>${done.refused.length > 0 && html`<ul>${done.refused.map(([a, code]) => html`<li key=${keyOf(a)}><${Text} v=${idOf(a)} mono /> <span class="code">${visible(code)}</span> ${code === 'NOT_SENT' ? t('work.notsent') : explain(code)}</li>`)}</ul>`}</div>`}
      ${states.map((s) => html`<${Group} key=${s} state=${s} items=${all.filter((a) => stateOf(a) === s)} caller=${caller} ask=${this.ask} />`)}
      ${all.length === 0 && (!first || filters.prefix || next ? html`<${Empty} title=${t(next ? 'page.none' : 'work.nomatch')} />` : html`<${Empty} title=${t('work.empty')}><p>${t('work.teach')}</p><${Command}>leasehold once ${flagOf(tenant)}nightly-report -- ./report.sh<//><//>`)}
      <${Pages} link=${(page) => to(['work'], { ...filters, page })} tokens=${tokens} next=${next} n=${work.length} counts=${counts} />
      ${failed.length > 1 && html`<p class="actions"><button class="quiet danger" onClick=${() => this.ask('retry', ...failed)}>${t('work.retryall', { n: failed.length })}</button></p>`}
      <${Find} id="name" label=${t('work.name')} find=${(id) => { if (id) location.hash = to(['work', 'name', id]) }} />
      ${unreadable.length > 0 && html`<${Panel} id="unreadable" title=${t('work.unreadable')}><ul class="plain">${unreadable.map((u) => html`<li key=${keyOf(u)}><${Text} v=${idOf(u)} mono /> <span class="code">${u.code}</span></li>`)}</ul><//>`}
      ${dialog}`
  }
}

export default { id: 'work', icon: 'M4 7h16v12H4zM9 7V4h6v3M4 12h16', every: 5000, load, View }

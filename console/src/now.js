// Now: the leases that are held, who waits for them, and how far the clocks are apart.
import { get, path, query, store, server, now, Problem } from './api.js'
import { html, t, Text, Time, State, Bar, Fact, Filters, Empty, Command, clock, duration, left, plural, number, visible, to } from './ui.js'
import { Survey, Looked, Pages, pagesOf } from './survey.js'

const recently = 60_000 // how long a refusal counts

// tenants are those that the page has seen requests for. Where there is authentication they are one.
export const tenants = new Set()

// overseer reports whether a caller sees what others asked for: of its tenant, or of all.
export const overseer = (caller) => caller.administrator || caller.operator

// refusals are the rejected requests that this process knows of, if the caller may see them.
export async function refusals(caller, parameters, signal) {
  if (!overseer(caller)) return null
  try {
    return (await get('v1/outcomes' + query(parameters), { signal })).body
  } catch (e) {
    if (e instanceof Problem && e.problem.code === 'NOT_CONFIGURED') return null
    throw e
  }
}

// flagOf is the tenant as a command has it, where it is not the one that commands are for by themselves.
export const flagOf = (tenant) => (tenant === 'default' ? '' : /^[\w.-]+$/.test(tenant) ? `--tenant ${tenant} ` : '--tenant … ')

// lockOf is the key of the lock that a path is about.
export const lockOf = (p) => { const m = /\/locks\/([^/]+)\/acquire$/.exec(p); try { return m && decodeURIComponent(m[1]) } catch { return null } }

const survey = new Survey()

// ending is what the API calls so: less than a third of a lease is left.
const ending = (l) => l.state === 'ACTIVE' && l.mode !== 'rate' && leases(l).some((h) => left(h.expires) < (h.ttl * 1000) / 3)
const waiting = (l) => l.waiting?.length || 0

async function load({ tenant, caller, q, signal, before, changed }) {
  const after = before?.last, tokens = pagesOf(q.get('page')), prefix = q.get('prefix'), owner_id = q.get('owner'), state = q.get('state') || 'ACTIVE'
  const about = path('tenants', tenant, 'locks')
  const [locks, outcomes] = await Promise.all([
    get(about + query({ state: state === 'ALL' ? '' : state, prefix, owner_id, page_size: 100, page_token: tokens.at(-1) }), { signal }),
    refusals(caller, { rejected: true, page_size: 200, after }, signal),
  ])
  store.add(locks.body.at, locks.sent, locks.got)
  const { locks: list, counts, next_page_token: next } = locks.body
  // A page that is all there is says all; also of locks that no one holds and some wait for, if there are none.
  const seen = list.filter((l) => waiting(l) > 0)
  if (!tokens.length && !next && !owner_id && (state === 'ACTIVE' || state === 'ALL') && seen.length === counts.waited_for) survey.whole(counts, list.filter((l) => waiting(l) > 0 || ending(l)))
  else survey.read({ locks: about }, { prefix }, signal, changed)
  for (const o of outcomes?.outcomes || []) if (o.tenant_id) tenants.add(o.tenant_id)
  const recent = (o) => now() - Date.parse(o.at) < recently
  const fresh = (outcomes?.outcomes || []).filter((o) => o.tenant_id === tenant && lockOf(o.path)?.startsWith(prefix || ''))
  const refused = [...fresh, ...(before?.refused || [])].filter(recent)
  // More were refused than a page has: who was, is known in part only.
  const missed = outcomes?.next_page_token && recent(outcomes.outcomes.at(-1)) ? outcomes.outcomes.at(-1).at : before?.missed
  return { list, counts, next, tokens, refused, missed: missed && now() - Date.parse(missed) < recently ? missed : null, watched: !!outcomes, last: outcomes?.outcomes[0]?.number ?? after }
}

// leases are the leases of a lock: one, or those of its holders.
export const leases = (l) => (l.holders?.length ? l.holders : [l]).map((h) => ({ owner: h.owner_id, expires: h.expires_at, ttl: h.ttl_seconds || l.ttl_seconds || 1, permit: h.permit, mode: h.mode || l.mode }))

function Clocks() {
  const s = store.best, p = server.best
  if (!s) return html`<${Fact} name=${t('now.clock')}>—<//>`
  const device = Math.round(-s.ahead), apart = p && Math.round(p.ahead - s.ahead), off = Math.ceil(s.off + (p?.off || 0))
  const say = (ms) => (Math.abs(ms) <= off ? t('clock.same', { off }) : t(ms > 0 ? 'clock.ahead' : 'clock.behind', { ms: duration(Math.abs(ms)) }))
  return html`<${Fact} name=${t('now.clock')} level=${Math.abs(device) > 2000 || Math.abs(apart) > 1000 ? 'low' : ''}><span>${say(device)}</span>${p && Math.abs(apart) > off && html`<small class="under">${t('clock.server', { ms: duration(Math.abs(apart)) })}</small>`}<//>`
}

function Row({ l, refused }) {
  const list = leases(l), waiting = l.waiting?.length || 0
  return html`<li class="lock"><div><a class="key" href=${'#/lock/' + encodeURIComponent(l.lock_key)}><${Text} v=${l.lock_key} mono cut /></a>
    <span class="tags">${l.mode && html`<span class="tag">${t('mode.' + l.mode)}</span>`}${waiting > 0 && html`<span class="tag hot">${plural('waiting', waiting)}</span>`}${refused > 0 && html`<span class="tag hot">${plural('refused', refused)}</span>`}</span></div>
    <div>${l.state !== 'ACTIVE' ? html`<div class="row"><${State} v=${l.state} /> <${Text} v=${l.owner_id} cut /> <${Time} at=${l.released_at || l.expires_at} /></div>` : list.map((h, i) => html`<div class="lease" key=${i}><${Text} v=${h.owner} cut /><${Bar} expires=${h.expires} ttl=${h.ttl} label=${visible(l.lock_key) + ', ' + visible(h.owner)} /><span class="left">${duration(left(h.expires))}</span></div>`)}</div></li>`
}

// Only is a lock of which no more is known than that it was refused.
const Only = ({ name, refused }) => html`<li class="lock"><div><a class="key" href=${to(['lock', name])}><${Text} v=${name} mono cut /></a></div><div><span class="tag hot">${plural('refused', refused)}</span></div></li>`

const states = ['ACTIVE', 'EXPIRED', 'RELEASED', 'ALL']

function View({ data, q, tenant, again }) {
  const { list, counts, next, tokens, refused, missed } = data
  const prefix = q.get('prefix'), owner = q.get('owner'), state = q.get('state') || 'ACTIVE', filters = { prefix, owner, state: state === 'ACTIVE' ? '' : state }
  const count = new Map()
  for (const o of refused) count.set(lockOf(o.path), (count.get(lockOf(o.path)) || 0) + 1)
  const first = !tokens.length && !owner && state === 'ACTIVE', known = new Map([...(survey.sum?.urgent || []), ...list].map((l) => [l.lock_key, l]))
  const hot = [...new Set([...[...known.values()].filter((l) => waiting(l) > 0).map((l) => l.lock_key), ...count.keys()])]
  // What was found is a lower bound; the API's count of those that are waited for is one as well.
  const some = survey.sum ? Math.max(hot.length, survey.sum.counts.waited_for) : hot.length
  const contended = survey.sum ? number(some) + (survey.sum.next || missed || !data.watched ? '+' : '') : '…'
  const late = (survey.sum?.urgent || []).map((l) => known.get(l.lock_key)).filter((l) => ending(l) && !hot.includes(l.lock_key))
  const rest = first ? list.filter((l) => !hot.includes(l.lock_key) && !late.includes(l)) : list
  const row = (l) => html`<${Row} key=${l.lock_key} l=${l} refused=${count.get(l.lock_key) || 0} />`
  const group = (id, title, rows) => rows.length > 0 && html`<section aria-labelledby=${id}><h2 class="group" id=${id}>${title}</h2><ul class="locks">${rows}</ul></section>`
  const at = survey.sum?.at && html` <span class="note">${t('survey.at', { at: clock(survey.sum.at) })}</span>`
  return html`<dl class="facts"><${Fact} name=${t('now.held')}>${survey.count((c) => c.active)}<//>
    <${Fact} name=${t('now.contended')} level=${some ? 'low' : ''}>${contended}<//>
    <${Fact} name=${t('now.ending')} level=${survey.sum?.counts.ending ? 'low' : ''}>${survey.count((c) => c.ending)}<//><${Clocks} /></dl>
  <${Looked} of=${survey} again=${again} />${survey.failed && html`<p class="note" role="status">${t('survey.failed')}</p>`}
  <${Filters} id="by-" path=${['now']} fields=${[{ name: 'prefix', label: t('now.prefix'), value: prefix }, { name: 'owner', label: t('happened.owner'), value: owner },
    { name: 'state', label: t('state'), value: state, options: states.map((s) => [s, s === 'ALL' ? t('show.all') : t('state.' + s)]) }]} />
  ${first && html`${group('contended', html`${t('now.contended')}${at}`, hot.map((k) => (known.has(k) ? row(known.get(k)) : html`<${Only} key=${k} name=${k} refused=${count.get(k)} />`)))}
    ${group('ending', html`${t('now.ending')}${at}`, late.map(row))}`}
  ${group('held', state === 'ALL' ? t('show.all') : state === 'ACTIVE' ? t('now.held') : t('state.' + state), rest.map(row))}
  ${list.length === 0 && (first && !prefix ? html`<${Empty} title=${t('now.empty')}><p>${t('now.teach')}</p><${Command}>leasehold lock run my-lock ${flagOf(tenant)}-- sleep 30<//><p class="note">${t('now.tenant', { tenant })}</p><//>`
    : html`<${Empty} title=${t(next ? 'page.none' : 'now.none')} />`)}
  <${Pages} link=${(page) => to(['now'], { ...filters, page })} tokens=${tokens} next=${next} n=${list.length} counts=${counts} />
  ${!data.watched && html`<p class="note">${t('now.unwatched')}</p>`}`
}

export default { id: 'now', icon: 'M4 6h16M4 12h10M4 18h6', every: 3000, load, View }

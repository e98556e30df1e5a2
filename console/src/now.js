// Now: the leases that are held, who waits for them, and how far the clocks are apart.
import { get, path, query, store, server, now, Problem } from './api.js'
import { html, t, Text, Bar, Fact, Find, Empty, Command, duration, left, plural, number, visible } from './ui.js'

const recently = 60_000 // how long a refusal counts

// tenants are those that the page has seen requests for. Where there is authentication they are one.
export const tenants = new Set()

// refusals are the rejected requests that this process knows of, if the caller may see them.
export async function refusals(caller, parameters, signal) {
  if (!caller.administrator) return null
  try {
    return (await get('v1/outcomes' + query(parameters), { signal })).body
  } catch (e) {
    if (e instanceof Problem && e.problem.code === 'NOT_CONFIGURED') return null
    throw e
  }
}

// lockOf is the key of the lock that a path is about.
export const lockOf = (p) => { const m = /\/locks\/([^/]+)\/acquire$/.exec(p); try { return m && decodeURIComponent(m[1]) } catch { return null } }

async function load({ tenant, caller, args, signal, before }) {
  const after = before?.last
  const [locks, outcomes] = await Promise.all([
    get(path('tenants', tenant, 'locks') + query({ state: 'ACTIVE', prefix: args[0], page_size: 100 }), { signal }),
    refusals(caller, { rejected: true, page_size: 200, after }, signal),
  ])
  store.add(locks.body.at, locks.sent, locks.got)
  for (const o of outcomes?.outcomes || []) if (o.tenant_id) tenants.add(o.tenant_id)
  const fresh = (outcomes?.outcomes || []).filter((o) => o.tenant_id === tenant && lockOf(o.path) !== null)
  const refused = [...fresh, ...(before?.refused || [])].filter((o) => now() - Date.parse(o.at) < recently)
  return { locks: locks.body.locks, more: !!locks.body.next_page_token, refused, watched: !!outcomes, last: outcomes?.outcomes[0]?.number ?? after }
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
    <div>${list.map((h, i) => html`<div class="lease" key=${i}><${Text} v=${h.owner} cut /><${Bar} expires=${h.expires} ttl=${h.ttl} label=${visible(l.lock_key) + ', ' + visible(h.owner)} /><span class="left">${duration(left(h.expires))}</span></div>`)}</div></li>`
}

function View({ data, args, tenant }) {
  const { locks, refused, more } = data
  const count = new Map()
  for (const o of refused) count.set(lockOf(o.path), (count.get(lockOf(o.path)) || 0) + 1)
  const hot = (l) => (l.waiting?.length || 0) + (count.get(l.lock_key) || 0)
  const contended = locks.filter((l) => hot(l) > 0), rest = locks.filter((l) => hot(l) === 0)
  const next = locks.flatMap(leases).map((h) => left(h.expires)).sort((a, b) => a - b)[0]
  const group = (id, title, list) => list.length > 0 && html`<section aria-labelledby=${id}><h2 class="group" id=${id}>${title}</h2><ul class="locks">${list.map((l) => html`<${Row} key=${l.lock_key} l=${l} refused=${count.get(l.lock_key) || 0} />`)}</ul></section>`
  return html`<dl class="facts"><${Fact} name=${t('now.held')}>${number(locks.length) + (more ? '+' : '')}<//>
    <${Fact} name=${t('now.contended')} level=${contended.length ? 'low' : ''}>${number(contended.length)}<//>
    <${Fact} name=${t('now.next')}>${next === undefined ? '—' : duration(next)}<//><${Clocks} /></dl>
  <${Find} id="prefix" label=${t('now.prefix')} value=${args[0]} find=${(p) => { location.hash = '#/now' + (p ? '/' + encodeURIComponent(p) : '') }} does=${t('filter')} />
  ${locks.length === 0 ? (args[0] ? html`<${Empty} title=${t('now.none')} />` : html`<${Empty} title=${t('now.empty')}><p>${t('now.teach')}</p><${Command}>leasehold lock run my-lock ${tenant === 'default' ? '' : /^[\w.-]+$/.test(tenant) ? `--tenant ${tenant} ` : '--tenant … '}-- sleep 30<//><p class="note">${t('now.tenant', { tenant })}</p><//>`)
    : html`${group('contended', t('now.contended'), contended)}${group('held', t('now.held'), rest)}`}
  ${more && html`<p class="note">${t('now.more')}</p>`}
  ${!data.watched && html`<p class="note">${t('now.unwatched')}</p>`}`
}

export default { id: 'now', icon: 'M4 6h16M4 12h10M4 18h6', every: 3000, load, View }

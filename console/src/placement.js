// Placement: the members of a cluster, which partitions are whose, where an identity is, and what the last epoch moved.
import { get, path, query, now } from './api.js'
import { Had } from './had.js'
import { html, t, Text, Time, Fact, Panel, Find, Empty, Command, State, Canvas, number, visible, to } from './ui.js'

const past = 3_600_000 // how far back events are read

// moves is who lost how many partitions to whom from one table to the next, the largest first.
export function moves(a, b) {
  const names = (t, i) => (i < 0 ? '' : t.members[i].member), count = new Map()
  for (let p = 0; p < b.table.length; p++) {
    const from = names(a, a.table[p]), to = names(b, b.table[p])
    if (from !== to) count.set(from + '\0' + to, (count.get(from + '\0' + to) || 0) + 1)
  }
  return [...count].map(([k, n]) => [...k.split('\0'), n]).sort((x, y) => y[2] - x[2])
}

// earlier is the epoch before one, from which it moved partitions; null if it is kept no longer.
async function earlier({ epoch, table }, of, signal) {
  if (epoch === 1) return { members: [], table: table.map(() => -1) }
  try {
    return (await get(of('topology') + query({ epoch: epoch - 1 }), { signal })).body
  } catch (error) {
    if (error.status === 404) return null
    throw error
  }
}

const most = 500 // events of a page
// since reads the events after a place: more than one page of them if there are, so that the last ones are among them; behind if there are still more.
async function since(about, after, signal) {
  const events = []
  for (let n = 0; ; n++) {
    const { body } = await get(about + query({ after, page_size: most }), { signal })
    events.push(...body.events)
    after = body.next
    if (body.events.length < most || n === 3) return { events, next: after, behind: body.events.length >= most }
  }
}

async function load({ tenant, args: [name, kind, id], signal, before }) {
  const listed = before?.clusters ? before : await get(path('tenants', tenant, 'clusters'), { signal }).then(({ body }) => ({ clusters: body.clusters.map((c) => c.cluster), others: !!body.next_page_token }))
  const cluster = name || listed.clusters[0]
  if (!cluster) return { clusters: listed.clusters }
  const of = (...rest) => path('tenants', tenant, 'clusters', cluster, ...rest)
  const after = before?.next || new Date(now() - past).toISOString()
  const [t, e, placed] = await Promise.all([get(of('topology'), { signal, etag: before?.etag }), since(of('events'), after, signal),
    kind && id ? get(of('placements', kind, id), { signal }).then((r) => r.body) : null])
  const topology = t.body || before.topology
  const known = before?.topology
  let moved = before?.moved
  if (topology.epoch && topology.epoch !== known?.epoch) {
    const from = known && known.epoch === topology.epoch - 1 ? known : await earlier(topology, of, signal)
    moved = from && moves(from, topology)
  }
  const events = new Map([...(before?.events || []), ...e.events].map((x) => [x.event_id, x]))
  return {
    clusters: listed.clusters, others: listed.others, cluster, topology, etag: t.etag, next: e.next, behind: e.behind, moved, placed,
    events: [...events.values()].filter((x) => !id || (x.kind === kind && x.id === id)).sort((a, b) => (a.event_id < b.event_id ? -1 : 1)).slice(-200),
  }
}

const hues = 8
const hue = (i) => 'm' + (i % hues)

const Partitions = ({ topology, found }) => {
  const { table, members } = topology, across = table.length > 8192 ? 256 : Math.min(128, Math.ceil(Math.sqrt(table.length * 4))), lines = Math.ceil(table.length / across), size = Math.max(4, Math.floor(896 / across))
  const draw = (c, w, h, colour) => {
    c.clearRect(0, 0, w, h)
    for (let p = 0; p < table.length; p++) {
      c.fillStyle = colour(table[p] < 0 ? 'cell' : hue(table[p]))
      c.fillRect((p % across) * size, Math.floor(p / across) * size, size - 1, size - 1)
    }
    if (found === undefined) return
    c.lineWidth = 3
    c.strokeStyle = colour('ink')
    c.strokeRect((found % across) * size - 2, Math.floor(found / across) * size - 2, size + 3, size + 3)
  }
  return html`<div class="heat"><${Canvas} key=${table.length} width=${across * size} height=${lines * size} draw=${draw} draws=${topology.epoch + '/' + found} label=${t('place.picture', { partitions: table.length, members: members.length })} /></div>`
}

// At is where an identity is.
const At = ({ placed }) => html`<dl class="labels"><div><dt>${t('place.partition')}</dt><dd>${placed.partition}</dd></div>
  ${placed.owner && html`<div><dt>${t('place.owner')}</dt><dd><${Text} v=${placed.owner.member} /></dd></div>`}
  ${placed.placed && html`<div><dt>${t('place.placed')}</dt><dd><${Text} v=${placed.placed.member} /></dd></div>`}
  <div><dt>${t('place.activation')}</dt><dd>${placed.activation ? html`<${State} v=${placed.activation.phase} /> ${placed.activation.changed_at && html`<${Time} at=${placed.activation.changed_at} />`}` : t('place.never')}</dd></div>
  ${placed.activation?.alarm_at && html`<div><dt>${t('place.alarm')}</dt><dd><${Time} at=${placed.activation.alarm_at} />${placed.activation.alarm_tries > 0 && html` <span class="tag warm">${t('place.due')}</span>`}</dd></div>`}</dl>`

function View({ data, args: [name, kind, id], tenant, caller }) {
  const { clusters, others, cluster, topology, events, behind, moved, placed } = data
  const choose = html`<${Find} id="cluster" label=${t('place.cluster')} value=${name || cluster} find=${(c) => { location.hash = '#/placement' + (c ? '/' + encodeURIComponent(c) : '') }} does=${t('go')} />
    ${clusters.length > 1 && html`<p class="choices">${clusters.map((c) => html`<a key=${c} class="tag" href=${'#/placement/' + encodeURIComponent(c)} aria-current=${c === cluster ? 'true' : null}>${c}</a>`)}</p>`}${others && html`<p class="note">${t('place.others')}</p>`}`
  if (!cluster || topology.epoch === 0) return html`${cluster && choose}<${Empty} title=${t(cluster ? 'place.noepoch' : 'place.empty')}><p>${t('place.teach')}</p><${Command}>${`curl ${new URL('../' + path('tenants', tenant, 'clusters', cluster || 'rooms', 'members', 'worker-1', 'join'), document.baseURI)} -d '{"request_id":"r1","kinds":["room"],"ttl_seconds":60}'`}<//><//>`
  const count = topology.members.map(() => 0)
  for (const m of topology.table) if (m >= 0) count[m]++
  const most = Math.max(1, ...count), began = events.find((e) => !e.kind && e.epoch === topology.epoch && e.moved)
  return html`${choose}
    <dl class="facts"><${Fact} name=${t('place.members')}>${number(topology.members.length)}<//><${Fact} name=${t('place.partitions')}>${number(topology.partitions)}<//>
      <${Fact} name=${t('place.epoch')}>${number(topology.epoch)}<//><${Fact} name=${t('place.status')} level=${topology.status === 'READY' ? '' : 'gone'}>${t('place.' + topology.status)}<//></dl>
    <${Panel} id="find" title=${t('place.find')}><${Find} id="kind" label=${t('place.kind')} value=${kind} second=${{ label: t('place.id'), value: id }} find=${(k, i) => { if (k && i) location.hash = to(['placement', cluster, k, i]) }} />
      <div role="status">${placed && html`<${At} placed=${placed} />`}</div>${placed && html`<p><a href=${to(['placement', cluster])}>${t('place.all')}</a></p>`}<//>
    ${placed && html`<${Had} key=${kind + '/' + id} of=${{ kind: 'activation', tenant_id: tenant, cluster, key: kind + '/' + id }} caller=${caller} />`}
    <${Panel} id="members" title=${t('place.members')}><ul class="members">${topology.members.map((m, i) => html`<li key=${m.member + m.incarnation}><i class=${'dot ' + hue(i)}></i><div><${Text} v=${m.member} /> ${m.status !== 'ACTIVE' && html`<${State} v=${m.status} />`}${m.full && html`<span class="tag warm">${t('place.full')}</span>`}
        <p class="note">${m.kinds.map(visible).join(', ') || '—'}${m.address && html` · <${Text} v=${m.address} mono />`}${Object.entries(m.labels || {}).map(([k, v]) => html` · <${Text} v=${k + '=' + v} />`)}</p></div>
        <div class="bar" role="meter" aria-label=${visible(m.member)} aria-valuemin="0" aria-valuemax=${topology.partitions} aria-valuenow=${count[i]}><div style=${{ width: (100 * count[i]) / most + '%', background: `var(--${hue(i)})` }}></div></div><span class="left">${number(count[i])}</span></li>`)}</ul><${Partitions} topology=${topology} found=${placed?.partition} /><//>
    <${Panel} id="epoch" title=${t('place.last')}><p>${t('place.since', { epoch: topology.epoch })} <${Time} at=${topology.changed_at} />${topology.cause && html`: <${Text} v=${topology.cause} />`}</p>
      ${began && html`<p>${t('place.moved', { n: began.moved })}</p>`}
      ${moved ? html`<ul class="plain">${moved.map(([a, b, n]) => html`<li key=${a + '\0' + b}><b>${number(n)}</b> <${Text} v=${a || '—'} /> → <${Text} v=${b || '—'} /></li>`)}</ul>` : html`<p class="note">${t('place.unseen')}</p>`}<//>
    <${Panel} id="events" title=${t('place.events')}>${behind && html`<p class="note">${t('place.behind')}</p>`}${events.length ? html`<ol class="events">${events.slice(-30).reverse().map((e) => html`<li key=${e.event_id}><${Time} at=${e.at} /><span>${e.kind ? html`<a href=${to(['placement', cluster, e.kind, e.id])}><${Text} v=${e.kind + '/' + e.id} /></a>` : html`<${Text} v=${e.member} />`} ${e.from && html`<${State} v=${e.from} /> → `}<${State} v=${e.to} />${e.kind && html` <${Text} v=${e.member} />`}${e.reason && html` <span class="note"><${Text} v=${e.reason} /></span>`}</span></li>`)}</ol>` : html`<p class="note">${t('place.noevents')}</p>`}<//>`
}

export default { id: 'placement', icon: 'M12 4v5M12 9l-6 5M12 9l6 5M9.5 4h5M3.5 14h5v5h-5zM15.5 14h5v5h-5z', every: 5000, load, View }

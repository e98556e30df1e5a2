// IDs: which machine IDs are leased, when there will be none left, and what an ID says.
import { get, path } from './api.js'
import { html, t, Component, Text, Fact, Panel, Find, Canvas, duration, number, date, visible } from './ui.js'

async function load({ args: [name], signal, before }) {
  const spaces = before?.spaces || (await get('v1/machine-ids', { signal })).body.spaces.map((s) => s.space)
  const space = spaces.includes(name) ? name : spaces[0]
  const { body } = await get(path('machine-ids', 'spaces', space), { signal })
  const seen = [...(before?.seen || []), { at: body.at, leased: body.leased }].slice(-40)
  return { spaces, map: body, seen }
}

// full is when nothing is free any more if it goes on as while the page was watching, in milliseconds from now; nothing if it does not.
export function full(seen, units) {
  const a = seen[0], b = seen.at(-1)
  if (!a || b.at - a.at < 60_000 || b.leased <= a.leased) return null
  const ms = ((units - b.leased) * (b.at - a.at)) / (b.leased - a.leased)
  return ms < 86_400_000 ? ms : null
}

// parts of an ID. The error is the name of a text.
export function parts(text, map) {
  if (!/^\d{1,20}$/.test(text)) return { error: 'id.digits' }
  const id = BigInt(text), node = BigInt(64 - map.bit_reserve - map.bit_ts), sequence = node - BigInt(map.bit_id)
  if (id >> BigInt(64 - map.bit_reserve)) return { error: 'id.reserve' }
  const machine = Number((id >> sequence) & ((1n << BigInt(map.bit_id)) - 1n)), half = 2 ** (map.bit_id - 1)
  return { at: Number(id >> node) + map.custom_epoch, machine, leased: machine < half, sequence: Number(id & ((1n << sequence) - 1n)), of: 2 ** Number(sequence) }
}

const width = 128

// Map is the units as a picture, 128 in a line: the darker, the longer they stay leased.
class Map extends Component {
  state = { at: null }
  draw = (c, w, h, colour) => {
    const all = this.all(), size = w / width
    c.clearRect(0, 0, w, h)
    const shades = [colour('cell'), ...Array.from({ length: 9 }, (_, i) => colour('heat' + Math.ceil((i + 1) / 3)))]
    for (let i = 0; i < all.length; i++) {
      c.fillStyle = shades[all[i]]
      c.fillRect((i % width) * size, Math.floor(i / width) * size, size - 1, size - 1)
    }
  }
  all() { return this.props.map.pages.join('') }
  look = (x, y) => {
    const lines = Math.ceil(this.all().length / width), at = Math.floor(y * lines) * width + Math.floor(x * width)
    if (at !== this.state.at && at >= 0 && at < this.all().length) this.setState({ at })
  }
  render({ map }, { at }) {
    const all = this.all(), lines = Math.ceil(all.length / width)
    const say = (i) => (all[i] === '0' ? t('ids.free', { n: i }) : t('ids.leased', { n: i, time: duration((all[i] * map.longest_lease) / 9) }))
    return html`<div class="heat"><${Canvas} width=${width * 8} height=${lines * 8} draw=${this.draw} draws=${all} label=${t('ids.picture', { leased: map.leased, units: map.units })} onAt=${this.look} /></div>
      <div class="legend"><span><i class="cell"></i>${t('ids.legend.free')}</span><span><i class="heat1"></i><i class="heat2"></i><i class="heat3"></i>${t('ids.legend.leased', { time: duration(map.longest_lease) })}</span></div>
      <form class="find" onSubmit=${(e) => e.preventDefault()}><div class="field"><label for="unit">${t('ids.look')}</label><input id="unit" type="number" min="0" max=${all.length - 1} value=${at ?? ''} onInput=${(e) => this.setState({ at: e.target.value === '' ? null : Math.min(all.length - 1, Math.max(0, Math.floor(e.target.value))) })} /></div><output for="unit">${at !== null && say(at)}</output></form>`
  }
}

class Decode extends Component {
  state = { text: '' }
  render({ map }, { text }) {
    const p = text && parts(text, map)
    return html`<${Panel} id="decode" title=${t('id')}><${Find} id="id" label=${t('id.label')} find=${(id) => this.setState({ text: id.replace(/\s/g, '') })} does=${t('id.do')} />
      <div role="status">${p && (p.error ? html`<p class="failure">${t(p.error)}</p>` : html`<dl class="labels"><div><dt>${t('id.at')}</dt><dd>${date(p.at)} <span class="note">+${p.at % 1000} ms</span></dd></div>
        <div><dt>${t('id.machine')}</dt><dd>${p.machine} <span class="note">${t(p.leased ? 'id.leased' : 'id.fallback')}</span></dd></div><div><dt>${t('id.sequence')}</dt><dd>${p.sequence} <span class="note">/ ${p.of}</span></dd></div></dl>`)}</div><//>`
  }
}

function View({ data: { spaces, map, seen } }) {
  const soon = full(seen, map.units), services = Object.entries(map.leases)
  return html`${spaces.length > 1 && html`<p class="choices">${spaces.map((s) => html`<a key=${s} class="tag" href=${'#/ids/' + encodeURIComponent(s)} aria-current=${s === map.space ? 'true' : null}><${Text} v=${s} /></a>`)}</p>`}
    <dl class="facts"><${Fact} name=${t('ids.taken')}>${number(map.leased)} <small>/ ${number(map.units)}</small><//>
      <${Fact} name=${t('ids.full')} level=${map.free === 0 ? 'gone' : soon ? 'low' : ''}>${map.free === 0 ? t('ids.now') : soon ? duration(soon) : t('ids.no')}<//>
      <${Fact} name=${t('ids.next')}>${map.next_free ? duration(map.next_free - map.at) : '—'}<//></dl>
    <${Panel} id="map" title=${html`${t('ids.map')} <${Text} v=${map.space} />`}><${Map} map=${map} />${map.leased === 0 && html`<p class="note">${t('ids.teach')}</p>`}<//>
    ${services.length > 0 && html`<${Panel} id="services" title=${t('ids.services')}><dl class="labels">${services.map(([s, n]) => html`<div key=${s}><dt><${Text} v=${s} /></dt><dd>${number(n)}</dd></div>`)}</dl><//>`}
    <${Decode} map=${map} />`
}

export default { id: 'ids', icon: 'M5 5h5v5H5zM14 5h5v5h-5zM5 14h5v5H5zM14 14h5v5h-5z', every: 15_000, load, View }

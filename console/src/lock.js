// One lock: who holds it, who waits, who was refused, who held it before. Administrators can end the lease, and reset the fence of a resource.
import { get, post, path, requestID, Problem } from './api.js'
import { html, t, Component, Text, Time, Bar, Panel, Find, Empty, State, Dialog, Failure, duration, left, since, visible } from './ui.js'
import { refusals } from './now.js'
import { Outcomes } from './happened.js'
import { Had } from './had.js'

async function load({ tenant, caller, args: [key], signal }) {
  if (!key) return {}
  const about = path('tenants', tenant, 'locks', key)
  const [lock, outcomes] = await Promise.all([
    get(about, { signal }).then((r) => r.body, (e) => { if (e instanceof Problem && e.status === 404) return null; throw e }),
    refusals(caller, { path: '/' + about + '/', page_size: 20 }, signal),
  ])
  return { lock, outcomes: outcomes?.outcomes }
}

const Labels = ({ of }) => Object.keys(of || {}).length > 0 && html`<dl class="labels">${Object.entries(of).map(([k, v]) => html`<div key=${k}><dt><${Text} v=${k} /></dt><dd><${Text} v=${v} /></dd></div>`)}</dl>`

const Holder = ({ h, name, release }) => html`<div class="holder"><div class="lease big"><strong><${Text} v=${h.owner_id} /></strong><${Bar} expires=${h.expires_at} ttl=${h.ttl_seconds} label=${name} /><span class="left">${duration(left(h.expires_at))}</span></div>
  <p class="note">${t('lock.since')} <${Time} at=${h.acquired_at} /> · ${t('lock.until')} <${Time} at=${h.expires_at} /> · ${t('lock.ttl', { ttl: duration(h.ttl_seconds * 1000) })}${h.permit ? ' · ' + t('lock.permit', { n: h.permit }) : ''}</p><${Labels} of=${h.metadata} />
  ${release && html`<div class="actions"><button class="danger" onClick=${() => release(h)}>${t('lock.release')}</button></div>`}</div>`

const History = ({ past }) => html`<ol class="history">${past.map((p, i) => html`<li key=${i}><span class="mono token">${p.fencing_token || '—'}</span><div><${Text} v=${p.owner_id} />
  <p class="note"><${Time} at=${p.acquired_at} /> – <${Time} at=${p.ended_at} /> · <span class=${'e-' + visible(p.ended).toLowerCase()}>${t('ended.' + p.ended)}</span>${p.ended_by && html` · <${Text} v=${p.ended_by} />`}</p></div></li>`)}</ol>`

// Fence reads the fence of a resource when it is asked to, and can reset it.
class Fence extends Component {
  state = { fence: null, error: null, asks: false }
  find = async (resource) => {
    if (!resource) return
    this.setState({ fence: null, error: null })
    try {
      this.setState({ fence: (await get(path('tenants', this.props.tenant, 'fences', resource))).body })
    } catch (error) {
      this.setState(error instanceof Problem && error.status === 404 ? { fence: { resource } } : { error })
    }
  }
  reset = async (reason) => {
    const { resource, highest_token } = this.state.fence
    await post(path('tenants', this.props.tenant, 'fences', resource, 'reset'), { highest_token, reason, ...this.props.me })
  }
  render({ caller, value }, { fence, error, asks }) {
    return html`<${Panel} id="fence" title=${t('fence')}><p class="note">${t('fence.what')}</p>
      <${Find} id="resource" label=${t('fence.resource')} value=${value} find=${this.find} does=${t('fence.look')} />
      ${error && html`<${Failure} error=${error} />`}
      ${fence && (fence.highest_token ? html`<p class="row"><span>${t('fence.highest')} <span class="mono">${fence.highest_token}</span> ${t('fence.of')} <${Text} v=${fence.subject} mono /></span>
        ${caller.administrator && html`<button class="quiet danger" onClick=${() => this.setState({ asks: true })}>${t('fence.reset')}</button>`}</p>`
        : html`<p role="status">${t('fence.none', { resource: fence.resource })}</p>`)}
      ${asks && html`<${Dialog} title=${t('fence.reset')} what=${t('fence.resets', { resource: fence.resource, token: fence.highest_token })} does=${t('fence.reset')} act=${this.reset}
        close=${(done) => { this.setState({ asks: false }); if (done) this.find(fence.resource) }} />`}<//>`
  }
}

// me names the caller where callers name themselves.
export const me = (caller) => (caller.development ? { owner_id: 'console' } : {})

class View extends Component {
  state = { asks: null } // the lease to end; its ID is nowhere in the page
  release = async (reason) => {
    const { data: { lock }, tenant, caller } = this.props
    await post(path('tenants', tenant, 'locks', lock.lock_key, 'force-release'), { request_id: requestID(), reason, lease_id: this.state.asks.lease_id, ...me(caller) })
  }
  render({ data: { lock, outcomes }, args: [key], caller, tenant, again }, { asks }) {
    const find = html`<${Find} id="key" label=${t('lock.key')} value=${key} find=${(k) => { location.hash = '#/lock' + (k ? '/' + encodeURIComponent(k) : '') }} />`
    const fence = html`<${Fence} tenant=${tenant} caller=${caller} value=${key} me=${me(caller)} />`
    const had = key && html`<${Had} key=${tenant + '/' + key} of=${{ kind: 'lock', tenant_id: tenant, key }} caller=${caller} />`
    if (!key) return html`${find}<${Empty} title=${t('lock.which')}><p>${t('lock.teach')}</p><//>${fence}`
    const refused = outcomes && html`<${Panel} id="requests" title=${t('lock.requests')}>${outcomes.length ? html`<${Outcomes} list=${outcomes} />` : html`<p class="note">${t('lock.norequests')}</p>`}<//>`
    if (!lock) return html`${find}<${Empty} title=${t('lock.none')}><p>${t('lock.nonewhy')}</p><//>${had}${refused}${fence}`
    const held = lock.state === 'ACTIVE' && lock.mode !== 'rate', holders = lock.holders?.length ? lock.holders : held ? [lock] : []
    const f = lock.force_release
    return html`${find}
      <${Panel} id="holder" title=${html`<${Text} v=${lock.lock_key} mono />`} aside=${html`<${State} v=${lock.state} />${lock.mode && html`<span class="tag">${t('mode.' + lock.mode)}</span>`}`}>
        ${holders.map((h, i) => html`<${Holder} key=${i} h=${h} name=${visible(h.owner_id)} release=${caller.administrator && ((asks) => this.setState({ asks }))} />`)}
        ${!held && html`<p>${t('lock.last')} <${Text} v=${lock.owner_id} /> · <${Time} at=${lock.acquired_at} /> – <${Time} at=${lock.released_at || lock.expires_at} /></p>`}
        ${f && html`<p class="forced">${t('lock.forced')} <${Text} v=${f.by} />, <${Time} at=${f.at} />: <q><${Text} v=${f.reason} /></q></p>`}
        ${held && !caller.administrator && html`<p class="note">${t('lock.readonly')}</p>`}
      <//>
      <${Panel} id="line" title=${t('lock.line')}>${lock.waiting?.length ? html`<ol class="line">${lock.waiting.map((w, i) => html`<li key=${i}><${Text} v=${w.owner_id} /> <span class="note">${t('lock.waits', { time: since(w.since) })}</span></li>`)}</ol>` : html`<p class="note">${t('lock.noline')}</p>`}
        ${lock.refused && html`<p>${t('lock.refusedlast')} <${Text} v=${lock.refused.owner_id} />, <${Time} at=${lock.refused.at} /></p>`}<//>
      <${Panel} id="past" title=${t('lock.history')}>${lock.history?.length ? html`<${History} past=${lock.history} />` : html`<p class="note">${t('lock.nohistory')}</p>`}<//>
      ${had}${refused}${fence}
      ${asks && html`<${Dialog} title=${t('lock.release')} what=${t('lock.releases', { key: lock.lock_key, owner: asks.owner_id })} does=${t('lock.release')} act=${this.release} close=${(done) => { this.setState({ asks: null }); if (done) again() }} />`}`
  }
}

export default { id: 'lock', icon: 'M6 11h12v9H6zM9 11V8a3 3 0 0 1 6 0v3', every: 3000, load, View }

// Who had it: a lock, an analysis, a run or an identity at a time, from the audit file of the server.
import { get, query, Problem } from './api.js'
import { html, t, Component, Text, Panel, Failure, Command, date, number, plural, visible, has } from './ui.js'

const how = (l) => (has('had.' + l.ended) ? t('had.' + l.ended) : visible(l.ended))

const Lease = ({ l }) => html`<li><span class="mono token">${l.fencing_token || '—'}</span><div><${Text} v=${l.owner || '—'} />${l.certain === false && html` <span class="tag warm">${t('had.possibly')}</span>`}
  <p class="note">${l.granted_at ? date(l.granted_at) : '?'} – ${l.ended_at ? date(l.ended_at) : '?'}${l.ended && html` · ${how(l)}`}${l.ended_by && html` · <${Text} v=${l.ended_by} />`}${l.reason && html` · <q><${Text} v=${l.reason} /></q>`}</p></div></li>`

const Leases = ({ title, of }) => of.length > 0 && html`<h3>${title}</h3><ol class="history">${of.map((l) => html`<${Lease} key=${l.events[0]} l=${l} />`)}</ol>`

const flags = { lock: '--lock', run: '--run', analysis: '--analysis', activation: '--identity' }
const quoted = (text) => (/^[\w./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`)

// Answer is what the server found.
function Answer({ a, at }) {
  const known = a.first && (!at || at < a.first || at > a.last) // else all that the question needs was read
  return html`<div role="status">
    ${a.events === 0 && !a.unknown && html`<p>${t('had.none')}</p>`}
    ${at && (a.events > 0 || a.unknown) && a.holders.length === 0 && html`<p>${t(at < a.first ? 'had.before' : a.unknown ? 'had.unknown' : 'had.noone')}</p>`}
    <${Leases} title=${t('had.then')} of=${a.holders} />
    <${Leases} title=${t('had.earlier')} of=${a.before ? [a.before] : []} /><${Leases} title=${t('had.later')} of=${a.after ? [a.after] : []} />
    <${Leases} title=${t('had.latest')} of=${[...(a.leases || [])].reverse()} />${a.left_off && html`<p class="note">${plural('had.more', a.left_off)}</p>`}
    ${known && html`<p class="note">${t('had.known', { first: date(a.first), last: date(a.last) })}</p>`}
    ${a.broken_lines && html`<p class="note">${plural('had.broken', a.broken_lines)}</p>`}</div>`
}

// Had asks who had something: of is its kind, key, tenant_id and cluster.
export class Had extends Component {
  state = { answer: null, error: null, busy: false }
  ask = async (e) => {
    e.preventDefault()
    const time = e.target.elements.at.value, at = time && new Date(time).toISOString()
    this.setState({ busy: true, error: null })
    try {
      this.setState({ busy: false, at, answer: (await get('v1/history' + query({ ...this.props.of, at }))).body })
    } catch (error) {
      this.setState({ busy: false, at, error })
    }
  }
  render({ of, caller }, { answer, error, busy, at }) {
    if (!caller.operator && !(caller.administrator && of.tenant_id)) return null
    const none = error instanceof Problem && error.problem.code === 'NOT_CONFIGURED'
    return html`<${Panel} id="had" title=${t('had')}><p class="note">${t('had.what')}</p>
      <form class="find" onSubmit=${this.ask}><div class="field"><label for="at">${t('had.at')}</label><input id="at" name="at" type="datetime-local" step="1" /></div><button disabled=${busy}>${t('had.ask')}</button></form>
      ${none && html`<div role="status"><p>${t('had.nofile')}</p><${Command}>${`leasehold audit --file - ${of.tenant_id ? `--tenant ${quoted(of.tenant_id)} ` : ''}${of.cluster ? `--cluster ${quoted(of.cluster)} ` : ''}${flags[of.kind]} ${quoted(of.key)}${at ? ' --at ' + at : ''} <server.log`}<//></div>`}
      ${error && !none && html`<${Failure} error=${error} />`}
      ${answer && !error && html`<${Answer} a=${answer} at=${at} />`}<//>`
  }
}

// What lists say beyond the page that is shown: how many there are of each kind, and which need a look. A page of the API reads 5000 documents at
// most, and counts all that it read: a survey adds up the counts of one page or more of each list, and says whether anything was left unread.
import { get, query } from './api.js'
import { html, t, clock, number } from './ui.js'

const shown = 200 // of what needs a look, of each list

// total adds the counts of a page to those of others.
export function total(sum, counts) {
  for (const [k, v] of Object.entries(counts)) sum[k] = (sum[k] || 0) + v
}

export class Survey {
  constructor() { Object.assign(this, { of: '', sum: null, deep: 1, busy: false, failed: null }) }

  // pace is how long a sum is good for, in milliseconds: a survey reads about as many documents a second as a page of a hundred that is read every three.
  get pace() { return Math.max(3000, (this.sum?.counts.documents || 0) * 30) }

  // read begins a survey of lists, which are paths by the names of their entries, if the one before is of others, or too old. changed is called when it has ended.
  read(lists, parameters, signal, changed) {
    const of = JSON.stringify(lists) + query(parameters)
    if (of !== this.of) Object.assign(this, { of, sum: null, deep: 1, busy: false, failed: null })
    if (this.busy || (this.sum && Date.now() - this.sum.read < this.pace)) return
    this.busy = true
    this.add(of, lists, parameters, signal).then((sum) => { if (of === this.of) Object.assign(this, { sum, failed: null }) }, (failed) => { if (of === this.of && !signal.aborted) this.failed = failed })
      .finally(() => { if (of === this.of) { this.busy = false; changed() } })
  }

  async add(of, lists, parameters, signal) {
    const counts = {}
    let more = false
    const urgent = await Promise.all(Object.entries(lists).map(async ([name, path]) => {
      const found = []
      let next
      for (let n = 0; n < this.deep && of === this.of && (n === 0 || next) && found.length < shown; n++) {
        const { body } = await get(path + query({ ...parameters, urgent: true, page_size: shown, page_token: next }), { signal })
        total(counts, body.counts)
        found.push(...body[name])
        next = body.next_page_token
      }
      more ||= !!next
      return found
    }))
    return { counts, urgent: urgent.flat(), next: more, at: new Date(), read: Date.now() }
  }

  // whole takes a page that has all there is for the survey: nothing more needs to be asked.
  whole(counts, urgent) { Object.assign(this, { of: 'page', sum: { counts, urgent, next: false, at: null, read: 0 }, failed: null, busy: false }) }

  // deeper has the next survey read twice as much.
  deeper() { Object.assign(this, { deep: this.deep * 2, sum: this.sum && { ...this.sum, read: 0 } }) }

  // dated has it read again, after something was changed.
  dated() { if (this.sum) this.sum.read = 0 }

  // count is a number of the survey as it can be said: with a plus if there may be more of them.
  count(n) { return this.sum ? number(n(this.sum.counts)) + (this.sum.next ? '+' : '') : '…' }
}

// Looked says how far a survey went, if it was not to the end, and goes on when asked to.
export const Looked = ({ of, again }) => of.sum?.next ? html`<p class="note row"><span>${t('survey.part', { n: number(of.sum.counts.documents), at: clock(of.sum.at) })}</span>
  <button class="quiet" disabled=${of.busy} onClick=${() => { of.deeper(); again() }}>${t('survey.more')}</button></p>`
  : of.sum?.at && html`<p class="note">${t('survey.whole', { n: number(of.sum.counts.documents), at: clock(of.sum.at) })}</p>`

// Pages leads to the page after and the one before. The tokens of all pages up to this one are in the address.
export const Pages = ({ link, tokens, next, n, counts }) => {
  const to = (list) => link(list.join('.'))
  return (tokens.length > 0 || next) && html`<nav class="pages row" aria-label=${t('pages')}><span class="note">${t('page.shown', { page: number(tokens.length + 1), n: number(n), looked: number(counts.documents) })}</span>
    ${tokens.length > 0 && html`<a class="tag" rel="prev" href=${to(tokens.slice(0, -1))}>${t('page.before')}</a>`}${next && html`<a class="tag" rel="next" href=${to([...tokens, next])}>${t('page.next')}</a>`}</nav>`
}

// pagesOf are the tokens in an address.
export const pagesOf = (text) => (text || '').split('.').filter(Boolean)

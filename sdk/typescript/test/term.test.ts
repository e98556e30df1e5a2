import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Term } from '../src/term.js'
import { add, moment } from '../src/time.js'
import { FakeClock } from './world.js'

const trouble = new Error('no network')

/** The term of a lease of 30 seconds, which no timer watches. */
function held() {
  const clock = new FakeClock()
  const aborts: unknown[] = []
  const term = new Term(clock, add(moment(clock), 30_000), (cause) => new Error('expired', { cause }))
  term.signal.addEventListener('abort', () => aborts.push(term.signal.reason))
  return { clock, term, aborts }
}

const clocks = [['both clocks', 1, 1], ['the machine slept', 0, 1], ['the time was set', 1, 0]] as const

describe('the last moment', () => {
  for (const [name, mono, wall] of clocks) {
    for (const [passed, lost] of [[29_999, false], [30_000, true], [3_600_000, true]] as const) {
      test(`of a renewal and of the work: ${name}, ${passed} ms`, () => {
        const renewed = held()
        renewed.term.failed(trouble)
        const end = add(moment(renewed.clock), 7_200_000) // of a renewal that was asked for before
        const settled = held()
        for (const { clock } of [renewed, settled]) {
          clock.mono += mono * passed
          clock.time += wall * passed
        }
        assert.equal(renewed.term.extend(end), !lost)
        assert.equal(renewed.term.signal.aborted, lost)
        assert.equal(settled.term.settle() !== undefined, lost)
        assert.equal(settled.term.signal.aborted, lost)
        for (const { aborts } of [renewed, settled]) assert.equal(aborts.length, lost ? 1 : 0)
        if (lost) assert.equal((renewed.aborts[0] as Error).cause, trouble)
      })
    }
  }
})

test('the first loss stays', () => {
  const { clock, term, aborts } = held()
  const first = new Error('taken')
  term.lose(first)
  term.lose(new Error('taken again'))
  clock.skip(60_000)
  assert.equal(term.check(), first)
  assert.equal(term.settle(), first)
  assert.deepEqual(aborts, [first])
})

test('what is over in time is not lost later', () => {
  const { clock, term, aborts } = held()
  assert.equal(term.settle(), undefined)
  term.lose(new Error('taken'))
  clock.skip(60_000)
  assert.equal(term.check(), undefined)
  assert.equal(term.signal.aborted, false)
  assert.deepEqual(aborts, [])
})

test('a loss after a renewal has nothing of the failures before that', () => {
  const { clock, term } = held()
  term.failed(trouble)
  assert.equal(term.extend(add(moment(clock), 30_000)), true)
  clock.skip(30_000)
  assert.equal((term.check() as Error).cause, undefined)
})

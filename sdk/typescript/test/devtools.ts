// Chromium as its users have it: with tabs that are hidden behind others, and whose timers the browser slows down or stops. Playwright turns all of that off, so
// that the browser is driven over its own protocol here.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { bounded } from './player.js'

type Answer = { id?: number; result?: Record<string, never>; error?: { message: string } }

export class Browser {
  readonly #process: ChildProcess
  readonly #profile: string
  readonly #open = new Map<number, (a: Answer) => void>()
  #last = 0

  constructor(program: string, flags: readonly string[]) {
    this.#profile = mkdtempSync(join(tmpdir(), 'leasehold-devtools-'))
    this.#process = bounded(spawn(program, ['--headless=new', '--remote-debugging-pipe', `--user-data-dir=${this.#profile}`, ...flags, 'about:blank'], {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
    }))
    let text = ''
    ;(this.#process.stdio[4] as Duplex).on('data', (more: Buffer) => {
      text += more.toString()
      const parts = text.split('\0')
      text = parts.pop() ?? ''
      for (const answer of parts.map((p) => JSON.parse(p) as Answer)) {
        if (answer.id !== undefined) this.#open.get(answer.id)?.(answer)
      }
    })
  }

  async send(method: string, params: object = {}, sessionId?: string): Promise<Record<string, never>> {
    const id = ++this.#last
    const answer = await new Promise<Answer>((resolve) => {
      this.#open.set(id, resolve)
      ;(this.#process.stdio[3] as Duplex).write(`${JSON.stringify({ id, method, params, sessionId })}\0`)
    })
    this.#open.delete(id)
    assert.equal(answer.error, undefined, `${method}: ${answer.error?.message}`)
    return answer.result ?? {}
  }

  /** Opens a tab before the others, which are hidden from then on. */
  async tab(url: string): Promise<Tab> {
    const { targetId } = await this.send('Target.createTarget', { url })
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true })
    await this.send('Target.activateTarget', { targetId })
    const tab = new Tab(this, String(sessionId))
    await tab.until(`document.readyState === 'complete' && location.href.startsWith('http') && document.visibilityState === 'visible'`)
    return tab
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once('exit', resolve))
    ;(this.#process.stdio[3] as Duplex).write(`${JSON.stringify({ id: ++this.#last, method: 'Browser.close' })}\0`)
    await ended
    rmSync(this.#profile, { recursive: true, force: true, maxRetries: 10 })
  }
}

export class Tab {
  constructor(readonly browser: Browser, readonly session: string) {}

  /** What an expression is in the page. The page may be frozen: expressions are evaluated all the same, timers and answers of the network do not come. */
  async evaluate(expression: string): Promise<unknown> {
    const got = (await this.browser.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true }, this.session)) as unknown as {
      result: { value?: unknown }; exceptionDetails?: { exception?: { description?: string } }
    }
    assert.equal(got.exceptionDetails, undefined, `${expression}: ${got.exceptionDetails?.exception?.description}`)
    return got.result.value
  }

  /** Waits until an expression is true in the page. */
  async until(expression: string): Promise<void> {
    while ((await this.evaluate(expression)) !== true) await new Promise((resolve) => setTimeout(resolve, 100))
  }

  /** Freezes the page as browsers do with hidden ones: nothing of it runs. */
  async state(state: 'frozen' | 'active'): Promise<void> {
    await this.browser.send('Page.setWebLifecycleState', { state }, this.session)
  }
}

// Tests that fail, or are ended, leave no program behind that they started.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'

describe('a program that is stopped ends with the tests', { concurrency: true, timeout: 120_000 }, () => {
  for (const [name, end] of [
    ['a test that fails', `test('fails', () => { throw new Error('as planned') })`],
    ['an end from outside', `test('hangs', () => new Promise((resolve) => setTimeout(resolve, 1e9))); process.kill(process.pid, 'SIGTERM')`],
  ] as const) {
    test(name, async (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'leasehold-bounded-'))
      t.after(() => rmSync(folder, { recursive: true }))
      const file = join(folder, 'some.test.mjs')
      writeFileSync(file, `import { spawn } from 'node:child_process'
        import { test } from 'node:test'
        import { bounded } from ${JSON.stringify(new URL('./player.js', import.meta.url).href)}
        const child = bounded(spawn(process.execPath, ['-e', 'setTimeout(() => {}, 1e9)'], { stdio: ['ignore', 'inherit', 'ignore'] }))
        process.kill(child.pid, 'SIGSTOP')
        console.log('pid ' + child.pid)
        ${end}`)
      const { NODE_TEST_CONTEXT: _, ...env } = process.env
      const tests = spawn(process.execPath, [file], { env, stdio: ['ignore', 'pipe', 'ignore'] })
      let text = ''
      tests.stdout.on('data', (more: Buffer) => (text += more.toString()))
      t.after(() => {
        const pid = Number(/pid (\d+)/.exec(text)?.[1])
        if (tests.exitCode === null) tests.kill('SIGKILL')
        if (pid > 0 && !tests.stdout.closed) process.kill(pid, 'SIGKILL')
      })
      // The program has this pipe, too: it is closed when both are gone.
      const code = await new Promise((resolve) => tests.once('close', resolve))
      assert.match(text, /pid \d+/)
      assert.notEqual(code, 0)
    })
  }
})

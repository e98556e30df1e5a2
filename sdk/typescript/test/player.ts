// The programs of the repository that the tests run: scripts/programs.mjs builds them before.
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { after } from 'node:test'
import { fileURLToPath } from 'node:url'

const built = (name: string) => fileURLToPath(new URL(`../bin/${name}`, import.meta.url))

/** The player of the conformance scripts. */
export const player = process.env['LEASEHOLD_PLAYER'] ?? built('player')

/** The server. */
export const leasehold = built('leasehold')

/** Why what needs the server cannot be tested; false if it can. */
export const withoutGo: string | false = existsSync(leasehold) ? false : 'needs the repository, and go in the PATH'

const bound = new Set<ChildProcess>()
const endAll = () => {
  for (const child of bound) child.kill('SIGKILL') // which ends stopped ones, too
}
after(endAll)
process.once('exit', endAll)
for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

/** Ends a program with the tests of the file, in whatever way they end, and in whatever state it is. */
export function bounded<T extends ChildProcess>(child: T): T {
  bound.add(child)
  child.once('exit', () => bound.delete(child))
  return child
}

/** Starts a program and waits for the URL in its output. */
export async function start(program: string, args: string[]): Promise<{ url: string; process: ChildProcess }> {
  const child = bounded(spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] }))
  const url = await new Promise<string>((resolve, reject) => {
    let text = ''
    child.on('exit', (code) => reject(new Error(`${program} ended with ${code}: ${text}`)))
    child.stdout?.on('data', (more: Buffer) => {
      text += more.toString()
      const found = /https?:\/\/[\w.:]+/.exec(text)
      if (found && text.includes('\n')) resolve(found[0])
    })
  })
  return { url, process: child }
}

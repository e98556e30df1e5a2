// The player of the conformance scripts, as a process of its own. It ends with this one.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The root of the repository, from build/test. */
export const root = fileURLToPath(new URL('../../../../', import.meta.url))

/** Why what is built with Go cannot be tested; false if it can. */
export const withoutGo: string | false =
  !existsSync(`${root}/go.mod`) ? 'needs the repository' : spawnSync('go', ['version']).status !== 0 ? 'needs go in the PATH' : false

/** Builds a program of the repository. */
export function build(pkg: string, to: string): string {
  const got = spawnSync('go', ['build', '-buildvcs=false', '-o', to, pkg], { cwd: root, encoding: 'utf8' })
  if (got.status !== 0) throw new Error(`go build ${pkg}: ${got.stderr}`)
  return to
}

/** Starts a program and waits for the URL in its output. */
export async function start(program: string, args: string[]): Promise<{ url: string; process: ChildProcess }> {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] })
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

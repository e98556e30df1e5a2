// Builds the programs of the repository that the tests run, into build/bin. Without Go it builds nothing, and the tests say what they skip.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../../', import.meta.url))
if (existsSync(`${root}go.mod`) && spawnSync('go', ['version']).status === 0) {
  const to = fileURLToPath(new URL('../build/bin/', import.meta.url))
  const { status } = spawnSync('go', ['build', '-buildvcs=false', '-o', to, './cmd/leasehold', './contracts/conformance/player'], { cwd: root, stdio: 'inherit' })
  process.exit(status ?? 1)
}
console.error('no go, or not in the repository: what needs the server or the conformance scripts is skipped')

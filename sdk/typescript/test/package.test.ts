// The package as it is installed: a tiny program that uses it compiles in each resolution mode, with and without the DOM library, and runs with import and require.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const root = fileURLToPath(new URL('../../', import.meta.url))
const app = `${root}build/app/`
const installed = `${app}node_modules/@leasehold-dev/leasehold/`
const run = (program: string, args: string[], cwd = root) => {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, encoding: 'utf8' })
  assert.equal(status, 0, `${program} ${args.join(' ')}: ${stdout}${stderr}`)
  return stdout
}

const source = `
import { FOREVER, LockHeldError, Locks, type Lock, type LockEvent } from '@leasehold-dev/leasehold'
import { Election, type Leader, type Observation } from '@leasehold-dev/leasehold/election'
import { RunDiffersError } from '@leasehold-dev/leasehold/errors'
import { Fences } from '@leasehold-dev/leasehold/fences'
import { Idempotency, hono, idempotent, node } from '@leasehold-dev/leasehold/idempotency'
import { batch, lambda } from '@leasehold-dev/leasehold/lambda'
import { tokenFile } from '@leasehold-dev/leasehold/node'
import { requestAll } from '@leasehold-dev/leasehold/sets'
import { Runs, fingerprint, key, type Run } from '@leasehold-dev/leasehold/once'
import { IdGenerator, formatId, type GeneratorStats, type LeaseProvider } from '@leasehold-dev/leasehold/ids'
import { createProjectLock, type ProjectLockLease } from '@leasehold-dev/leasehold/projectlock'

export const names: string[] = [Locks, LockHeldError, Runs, fingerprint, IdGenerator, createProjectLock].map((f: { readonly name: string }) => f.name)
export async function work(url: string, provider: LeaseProvider): Promise<string> {
  const locks = new Locks({ url, tenant: 'acme', token: tokenFile('/run/token'), observe: (e: LockEvent) => void e.type })
  for await (const l of locks.list({ prefix: 'deploy' })) if (await locks.locked(l.lock_key)) await locks.acquire(l.lock_key, { wait: FOREVER })
  const term: number = await requestAll(locks, ['a', 'b'], async (lock: Lock) => lock.tokens.size)
  const election = new Election(locks, 'scheduler', { ttl: 10_000 })
  await election.lead((leader: Leader) => new Fences({ url, tenant: 'acme' }).check('disk', term ? leader : { subject: leader.subject, token: leader.token }))
  for await (const { leader, error } of election.observe()) if (!(leader satisfies Observation["leader"]) || error instanceof RunDiffersError) break
  const token: number = await locks.request('deploy', (lock: Lock) => lock.token)
  const runs = new Runs({ url, tenant: 'acme' })
  const done: number = await runs.once(key\`order-\${17}\`, { total: 12 }, (run: Run) => run.token)
  const once = new Idempotency(runs, { name: 'payments', scope: () => 'ann' })
  const handler = once.wrap((request) => { throw new Error(String(idempotent(request)?.token)) })
  const more: object[] = [handler, hono, node, lambda(runs, (event: { id: string }) => event.id, (_, run: Run) => run.token), batch(runs, (body: { id: string }, run: Run) => body.id + run.id)]
  const ids = new IdGenerator({ provider, serviceId: 'orders' })
  const stats: GeneratorStats = ids.stats
  const lease: ProjectLockLease = await createProjectLock().acquireProjectLock()
  try {
    return formatId(await ids.next()) + lease.id + token + done + stats.ids + more.length
  } catch (e) {
    return e instanceof LockHeldError ? String(e.owner) : ''
  } finally {
    await ids.close()
  }
}
`
// Where the platform has these types, the package's are they.
const platform = `
export async function more(lock: Lock, run: Run, url: URL): Promise<void> {
  const signals: AbortSignal[] = [lock.signal, run.signal]
  await fetch(url, { signal: signals[0] ?? null })
  new Locks({ url, tenant: 'acme', fetch })
}
`
const browser = `
createProjectLock({ locks: navigator.locks, directory: () => navigator.storage.getDirectory() })
`

before(() => {
  rmSync(app, { recursive: true, force: true })
  mkdirSync(installed, { recursive: true })
  writeFileSync(`${app}package.json`, '{ "private": true }\n') // otherwise the package's own name would be that of the sources
  const compiler = `${root}node_modules/typescript/bin/tsc`
  run(process.execPath, [compiler, '-p', 'tsconfig.build.json', '--outDir', `${installed}dist`])
  run(process.execPath, [compiler, '-p', 'tsconfig.cjs.json', '--outDir', `${installed}dist/cjs`])
  run(process.execPath, ['scripts/cjs.mjs', `${installed}dist`])
  for (const name of ['package.json', 'README.md', 'LICENSE', 'examples']) cpSync(root + name, installed + name, { recursive: true })
})

const { CommonJS, ESNext, Node16 } = ts.ModuleKind
for (const [mode, file, module, resolution] of [
  ['node10', 'app.ts', CommonJS, ts.ModuleResolutionKind.Node10],
  ['node16 from CommonJS', 'app.cts', Node16, ts.ModuleResolutionKind.Node16],
  ['node16 from ESM', 'app.mts', Node16, ts.ModuleResolutionKind.Node16],
  ['bundler', 'app.ts', ESNext, ts.ModuleResolutionKind.Bundler],
] as const) {
  for (const [library, lib, types, more] of [
    ['without any library', ['es2022'], [], ''],
    ['with the types of Node', ['es2022'], ['node'], platform],
    ['with the DOM library', ['es2022', 'dom'], [], platform + browser],
  ] as const) {
    test(`compiles with ${mode}, ${library}`, () => {
      writeFileSync(app + file, source + more)
      const program = ts.createProgram([app + file], {
        module, moduleResolution: resolution, lib: lib.map((l) => `lib.${l}.d.ts`), types: [...types], typeRoots: [`${root}node_modules/@types`], target: ts.ScriptTarget.ES2022,
        strict: true, exactOptionalPropertyTypes: true, noEmit: true, skipLibCheck: false, skipDefaultLibCheck: true,
      })
      const found = ts.getPreEmitDiagnostics(program).map((d) => `${d.file?.fileName}: ${ts.flattenDiagnosticMessageText(d.messageText, ' ')}`)
      assert.deepEqual(found, [])
    })
  }
}

test('runs with import and with require, and exports what users need', () => {
  const entries = ['', '/sets', '/once', '/ids', '/projectlock', '/election', '/fences', '/idempotency', '/lambda', '/node', '/errors'].map((e) => `@leasehold-dev/leasehold${e}`)
  const say = 'console.log(JSON.stringify(all.map((m) => Object.keys(m).sort())))'
  writeFileSync(`${app}run.cjs`, `const all = ${JSON.stringify(entries)}.map((e) => require(e)); ${say}`)
  writeFileSync(`${app}run.mjs`, `const all = await Promise.all(${JSON.stringify(entries)}.map((e) => import(e))); ${say}`)
  const [required, imported] = ['run.cjs', 'run.mjs'].map((f) => JSON.parse(run(process.execPath, [f], app)) as string[][])
  assert.deepEqual(required, imported)
  assert.deepEqual(imported?.[0]?.filter((name) => !name.endsWith('Error')), ['FOREVER', 'Lock', 'Locks'])
  assert.deepEqual(imported?.slice(1, -1), [
    ['acquireAll', 'requestAll'],
    ['PermanentError', 'RunFailedError', 'RunLockedError', 'RunNotStoredError', 'Runs', 'UncountedError', 'fingerprint', 'key'],
    ['ClockBackwardError', 'ConfigurationError', 'EpochMismatchError', 'HttpLeaseProvider', 'IdGenerator', 'ImplausibleIdError', 'LeaseAcquisitionError', 'MalformedIdError',
      'NoProviderError', 'PublicIds', 'TimeRangeError', 'decodeId', 'defaultLayout', 'firstId', 'formatId', 'idBytes', 'idFromBase32', 'idToBase32', 'parseId'],
    ['LockError', 'acquireProjectLock', 'createProjectLock', 'releaseProjectLock', 'renewProjectLock', 'subscribeLockEvents', 'withProjectLock'],
    ['Election', 'Leader'],
    ['Fences', 'OtherSubjectError', 'StaleTokenError'],
    ['Idempotency', 'hono', 'idempotent', 'node', 'storeOutcome', 'storeSuccess'],
    ['batch', 'lambda'],
    ['tokenFile'],
  ])
})

test('npm packs what was built, and nothing else', () => {
  const [packed] = JSON.parse(run('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], installed)) as [{ files: { path: string }[] }]
  const modules = readdirSync(`${root}src`).map((f) => f.replace(/\.ts$/, ''))
  const want = [
    'LICENSE', 'README.md', 'package.json', 'dist/cjs/package.json', ...readdirSync(`${root}examples`).map((f) => `examples/${f}`),
    ...modules.filter((m) => m !== 'types.gen').flatMap((m) => ['dist/', 'dist/cjs/'].flatMap((d) => [`${d}${m}.js`, `${d}${m}.d.ts`])),
    'dist/cjs/types.gen.d.ts', // once: it is as large as all others together
  ]
  assert.deepEqual(packed.files.map((f) => f.path).sort(), want.sort())
})

test('says where it is from', () => {
  const p = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as Record<string, { url: string; directory: string } | { provenance: boolean } | string | boolean>
  assert.equal(p['license'], 'Apache-2.0')
  assert.deepEqual(p['repository'], { type: 'git', url: 'git+https://github.com/leasehold-dev/leasehold.git', directory: 'sdk/typescript' })
  assert.deepEqual(p['publishConfig'], { access: 'public', provenance: true })
  assert.equal(p['sideEffects'], false)
  assert.deepEqual(p['engines'], { node: '>=20' })
})

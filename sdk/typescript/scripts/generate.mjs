// Writes src/types.gen.ts from contracts/openapi.yaml, and src/codes.gen.ts from the table of codes in contracts/vectors/errors.json. With --check it
// writes nothing, and ends with 1 if a file would change.
import { readFileSync, writeFileSync } from 'node:fs'
import openapiTS, { astToString } from 'openapi-typescript'
import ts from 'typescript'

const contracts = new URL('../../../contracts/', import.meta.url)

// Only the bodies: a program that uses the package loads these types, and none needs those of paths.
const needed = ['components', 'WithRequired'] // the latter is what a body is made of that demands more of another one
const bodies = (await openapiTS(new URL('openapi.yaml', contracts), { alphabetize: false, immutable: true })).filter((d) => needed.includes(d.name?.text)).map((d) =>
  !ts.isInterfaceDeclaration(d) ? d : ts.factory.updateInterfaceDeclaration(d, d.modifiers, d.name, d.typeParameters, d.heritageClauses, d.members.filter((m) => m.name?.text === 'schemas')))

// The tags are of JSDoc; in TypeScript the types say it, and typedoc does not know them.
const types = astToString(bodies).replaceAll(/@description /g, '').replaceAll(/ *\/\*\* @constant \*\/\n|@enum \{\w+\} */g, '')

// Of placement this package has no client: its errors have no class of their own.
const placement = new Set(['CURSOR_EXPIRED', 'TOPOLOGY_UNDETERMINED', 'NO_ELIGIBLE_MEMBER', 'MEMBER_INELIGIBLE', 'STALE_EPOCH', 'ACTIVATION_EXISTS', 'ACTIVATION_LOCKED', 'ACTIVATION_FAILED', 'WRONG_PHASE', 'STATE_CHANGED', 'MEMBER_EXISTS', 'MEMBER_UNKNOWN', 'STALE_INCARNATION', 'CLUSTER_FULL', 'CLUSTER_DIFFERS', 'PLACEMENT_LIMIT'])
const all = JSON.parse(readFileSync(new URL('vectors/errors.json', contracts), 'utf8')).codes
const codes = all.filter(({ code }) => !placement.has(code))
const camel = (code) => code.toLowerCase().replace(/(?:^|_)(.)/g, (_, letter) => letter.toUpperCase()) // as ApiError names itself
const classes = `import { ApiError, type Code } from './fault.js'

/** The error of one code. */
export interface CodedError<C extends Code> extends ApiError {
  readonly code: C
}

/** The class of the errors of one code. */
export interface CodedErrorClass<C extends Code> {
  new (...args: ConstructorParameters<typeof ApiError>): CodedError<C>
  readonly prototype: CodedError<C>
}

/** Makes the class of a code: its instances are the errors with that code. A program that asks for few classes has few of them. */
const of = <C extends Code>(code: C) => class extends ApiError {
  static override [Symbol.hasInstance](e: unknown): boolean {
    return e instanceof ApiError && e.code === code
  }
} as unknown as CodedErrorClass<C>

${codes.map(({ code, title }) => {
  const name = `${camel(code)}Error`
  return `/** ${code}: ${title}. */\nexport const ${name} = /* @__PURE__ */ of('${code}')\nexport type ${name} = CodedError<'${code}'>\n`
}).join('')}
/** The codes of which a retry may help, although the status does not say so, where a response does not say it. */
const retryable = /^(${all.filter((c) => c.retryable && c.status < 500 && ![408, 425, 429].includes(c.status)).map((c) => c.code).join('|')})$/

/** Makes the error of a problem. */
export const apiError = (problem: ConstructorParameters<typeof ApiError>[0], retryAfter = 0, options?: ErrorOptions): ApiError =>
  new ApiError({ ...(retryable.test(problem.code) && { retryable: true }), ...problem }, retryAfter, options)
`

let stale = false
for (const [name, source, text] of [['types.gen.ts', 'openapi.yaml', types], ['codes.gen.ts', 'codes.yaml', classes]]) {
  const file = new URL(`../src/${name}`, import.meta.url)
  const whole = `// Code generated from contracts/${source} by scripts/generate.mjs. DO NOT EDIT.\n\n${text}`
  if (!process.argv.includes('--check')) {
    writeFileSync(file, whole)
  } else if (readFileSync(file, 'utf8') !== whole) {
    console.error(`src/${name} is out of date: npm run generate`)
    stale = true
  }
}
if (stale) process.exit(1)

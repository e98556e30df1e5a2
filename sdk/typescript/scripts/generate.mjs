// Writes src/types.gen.ts from contracts/openapi.yaml, and src/codes.gen.ts from the table of codes in contracts/vectors/errors.json. With --check it
// writes nothing, and ends with 1 if a file would change.
import { readFileSync, writeFileSync } from 'node:fs'
import openapiTS, { astToString } from 'openapi-typescript'

const contracts = new URL('../../../contracts/', import.meta.url)

// The tags are of JSDoc; in TypeScript the types say it, and typedoc does not know them.
const types = astToString(await openapiTS(new URL('openapi.yaml', contracts), { alphabetize: false, immutable: true })).replaceAll(/@description /g, '').replaceAll(/ *\/\*\* @constant \*\/\n|@enum \{\w+\} */g, '')

// Of placement this package has no client: its errors have no class of their own, unless a retry may help.
const placement = new Set(['CURSOR_EXPIRED', 'TOPOLOGY_UNDETERMINED', 'NO_ELIGIBLE_MEMBER', 'MEMBER_INELIGIBLE', 'STALE_EPOCH', 'ACTIVATION_EXISTS', 'ACTIVATION_LOCKED', 'ACTIVATION_FAILED', 'WRONG_PHASE', 'STATE_CHANGED', 'MEMBER_EXISTS', 'MEMBER_UNKNOWN', 'STALE_INCARNATION', 'CLUSTER_FULL', 'CLUSTER_DIFFERS', 'PLACEMENT_LIMIT'])
const codes = JSON.parse(readFileSync(new URL('vectors/errors.json', contracts), 'utf8')).codes.filter(({ code, retryable }) => retryable || !placement.has(code))
const camel = (code) => code.toLowerCase().replace(/(?:^|_)(.)/g, (_, letter) => letter.toUpperCase()) // as ApiError names itself
const classes = `import { ApiError, type Code, type Problem } from './errors.js'

/** The error of one code. */
export interface CodedError<C extends Code> extends ApiError {
  readonly code: C
}

/** The class of the errors of one code. */
export interface CodedErrorClass<C extends Code> {
  new (...args: ConstructorParameters<typeof ApiError>): CodedError<C>
  readonly prototype: CodedError<C>
}

const classes: Record<string, typeof ApiError> = {}

/** Makes the class of a code. Where a response does not say whether a retry may help, it is as the code says. */
const of = <C extends Code>(code: C, retryable = false) => (classes[code] = class extends ApiError {
  constructor(...[problem, ...more]: ConstructorParameters<typeof ApiError>) {
    super({ retryable, ...problem }, ...more)
  }
}) as unknown as CodedErrorClass<C>

${codes.map(({ code, title, retryable }) => {
  const name = `${camel(code)}Error`
  return `/** ${code}: ${title}. */\nexport const ${name} = of('${code}'${retryable ? ', true' : ''})\nexport type ${name} = CodedError<'${code}'>\n`
}).join('')}
/** Makes the error of a problem, of the class of its code. A code that this version does not know is an {@link ApiError}. */
export function apiError(problem: Partial<Problem> & { readonly code: Code }, retryAfter = 0): ApiError {
  return new ((Object.hasOwn(classes, problem.code) && classes[problem.code]) || ApiError)(problem, retryAfter)
}
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

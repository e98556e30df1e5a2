// Writes src/types.gen.ts from contracts/openapi.yaml. With --check it writes nothing, and ends with 1 if the file would change.
import { readFileSync, writeFileSync } from 'node:fs'
import openapiTS, { astToString } from 'openapi-typescript'

const contract = new URL('../../../contracts/openapi.yaml', import.meta.url)
const file = new URL('../src/types.gen.ts', import.meta.url)

// The tags are of JSDoc; in TypeScript the types say it, and typedoc does not know them.
const types = astToString(await openapiTS(contract, { alphabetize: false, immutable: true })).replaceAll(/@description /g, '').replaceAll(/ *\/\*\* @constant \*\/\n|@enum \{\w+\} */g, '')
const text = `// Code generated from contracts/openapi.yaml by scripts/generate.mjs. DO NOT EDIT.\n\n${types}`
if (!process.argv.includes('--check')) {
  writeFileSync(file, text)
} else if (readFileSync(file, 'utf8') !== text) {
  console.error('src/types.gen.ts is out of date: npm run generate')
  process.exit(1)
}

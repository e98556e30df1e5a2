// Writes src/types.gen.ts from contracts/openapi.yaml. With --check it writes nothing, and ends with 1 if the file would change.
import { readFileSync, writeFileSync } from 'node:fs'
import openapiTS, { astToString } from 'openapi-typescript'

const contract = new URL('../../../contracts/openapi.yaml', import.meta.url)
const file = new URL('../src/types.gen.ts', import.meta.url)

const types = astToString(await openapiTS(contract, { alphabetize: false, immutable: true }))
const text = `// Code generated from contracts/openapi.yaml by scripts/generate.mjs. DO NOT EDIT.\n\n${types}`
if (!process.argv.includes('--check')) {
  writeFileSync(file, text)
} else if (readFileSync(file, 'utf8') !== text) {
  console.error('src/types.gen.ts is out of date: npm run generate')
  process.exit(1)
}

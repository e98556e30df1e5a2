// Finishes what the compiler has built: node scripts/cjs.mjs FOLDER, where FOLDER/cjs is CommonJS. It says so, whatever the package says, and has the only copy of the
// types of the contract: modules may import types of CommonJS, and not the other way round. Nothing of them is there at run time.
import { readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'

const [folder] = process.argv.slice(2)
writeFileSync(`${folder}/cjs/package.json`, '{ "type": "commonjs", "sideEffects": false }\n')
for (const copy of ['types.gen.js', 'types.gen.d.ts', 'cjs/types.gen.js']) rmSync(`${folder}/${copy}`)
for (const name of readdirSync(folder).filter((f) => f.endsWith('.d.ts'))) {
  const text = readFileSync(`${folder}/${name}`, 'utf8')
  const once = text.replaceAll("'./types.gen.js'", "'./cjs/types.gen.js'")
  if (once !== text) writeFileSync(`${folder}/${name}`, once)
}

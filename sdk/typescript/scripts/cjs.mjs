// Says that a folder has CommonJS, whatever the package says. node scripts/cjs.mjs FOLDER
import { writeFileSync } from 'node:fs'

writeFileSync(`${process.argv[2]}/package.json`, '{ "type": "commonjs", "sideEffects": false }\n')

// IDs under a leased machine ID, and a public ID. node examples/ids.mjs [URL]
import { IdGenerator, PublicIds, decodeId, formatId } from '@leasehold-dev/leasehold/ids'

const ids = new IdGenerator({ url: process.argv[2] ?? 'http://127.0.0.1:8080' })
const [a, b] = await ids.batch(2)
console.log('ascending:', a < b, 'without a lease:', decodeId(a).fallback)
const users = new PublicIds([{ secret: crypto.getRandomValues(new Uint8Array(32)) }], { entity: 'user' })
const external = await users.encode(a)
console.log('characters of the public ID:', external.length, 'and back:', formatId(await users.decode(external)) === formatId(a))
await ids.close()

// The code of the guide runs: the unique row that is written with the effect, on PostgreSQL. LEASEHOLD_TEST_POSTGRESQL is its address, LEASEHOLD_GUIDE the page.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import postgres from 'postgres'

const page = readFileSync(process.env.LEASEHOLD_GUIDE, 'utf8')
/** The one block of a language on the page that is about the table of keys. */
function block(language) {
  const found = [...page.matchAll(new RegExp('```' + language + '\\n([^]*?)```', 'g'))].map((m) => m[1]).filter((text) => /(INTO|TABLE) made/.test(text))
  assert.equal(found.length, 1)
  return found[0]
}
const Program = (async () => {}).constructor

test('the unique row of a key', async () => {
  const sql = postgres(process.env.LEASEHOLD_TEST_POSTGRESQL, { onnotice: () => {} })
  const pay = (key, { scope = 'ann', amount = 10 } = {}) => new Program('sql', 'scope', 'key', 'account', 'amount', block('ts'))(sql, scope, key, 'ann', amount)
  const balance = async () => (await sql`SELECT balance FROM accounts WHERE id = 'ann'`)[0].balance
  try {
    await sql`DROP TABLE IF EXISTS made, accounts`
    await sql.unsafe(block('sql'))
    await sql`CREATE TABLE accounts (id VARCHAR(255) PRIMARY KEY, balance INTEGER NOT NULL CHECK (balance >= 0))`
    await sql`INSERT INTO accounts VALUES ('ann', 100)`
    for (let i = 0; i < 3; i++) await pay('k1')
    assert.equal(await balance(), 90)
    await pay('k2')
    await pay('k1', { scope: 'bob' })
    assert.equal(await balance(), 70)
    await assert.rejects(pay('k3', { amount: 1000 })) // an effect that fails takes its row with it
    await pay('k3')
    assert.equal(await balance(), 60)
    await Promise.all(Array.from({ length: 8 }, () => pay('k4')))
    assert.equal(await balance(), 50)
  } finally {
    await sql.end()
  }
})

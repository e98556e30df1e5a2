// A client of the lease protocol as its users have it: the class below is the protocol's own example of a provider, without
// its types. Run by TestLeaseProviderOfOthers: node http_lease_provider.mjs http://127.0.0.1:8080/v1/machine-ids
import crypto from 'node:crypto';

class HttpLeaseProvider {
  constructor(endpoint) {
    this.endpoint = endpoint;
  }

  async acquire(options) {
    const res = await fetch(`${this.endpoint}/lease`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(options),
    });
    if (!res.ok) throw new Error(`acquire failed: ${res.status}`);
    return res.json();
  }

  async release(options) {
    const { id, signature, timestamp } = options;
    const res = await fetch(`${this.endpoint}/lease/${id}`, {
      method: 'DELETE',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ signature, timestamp }),
    });
    if (!res.ok) throw new Error(`release failed: ${res.status}`);
  }
}

function signed(lease) {
  const timestamp = Date.now();
  const signature = crypto.createHmac('sha256', lease.secret).update(`${lease.id}:${timestamp}`).digest('hex');
  return { id: lease.id, signature, timestamp };
}

const provider = new HttpLeaseProvider(process.argv[2]);
const { leases } = await provider.acquire({ serviceId: 'default', meta: { host: 'web-1', pid: '7' }, throughputPerMs: 1024 });
const [kept, ...others] = leases;
for (const lease of others) {
  await provider.release(signed(lease));
}
let refused;
try {
  await provider.release({ ...signed(kept), signature: signed({ ...kept, secret: 'other' }).signature });
} catch (e) {
  refused = e.message;
}
const single = await provider.acquire({ serviceId: undefined });
console.log(JSON.stringify({ leases, refused, single: single.leases.length }));

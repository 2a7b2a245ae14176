// Solves the proof of work of a human check, in a worker of its own so that the
// page stays alive. SHA-256 is written out here: crypto.subtle answers through a
// promise, which costs a dozen times what one hash does.
//
//   import { solve } from '/static/pow.js'
//   const header = await solve(challenge)      // of GET …/challenge, kind pow
//   fetch(url, { method: 'POST', headers: { 'Human-Check': header } })
//
// Median time for difficulty 18: 0.2 s on a desktop, up to a second on a phone.

// The fractional parts of the cube roots and square roots of the first primes.
const primes = []
for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p)) primes.push(n)
const fraction = (x) => ((x - Math.floor(x)) * 2 ** 32) | 0
const K = Int32Array.from(primes, (p) => fraction(Math.cbrt(p)))
const START = Int32Array.from(primes.slice(0, 8), (p) => fraction(Math.sqrt(p)))

const W = new Int32Array(64)

// block runs one block of 64 bytes through SHA-256: state `from` becomes `to`.
function block(bytes, at, from, to) {
  for (let i = 0; i < 16; i++, at += 4) W[i] = (bytes[at] << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3]
  for (let i = 16; i < 64; i++) {
    const x = W[i - 15], y = W[i - 2]
    W[i] = (W[i - 16] + W[i - 7] + (((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3)) +
      (((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10))) | 0
  }
  let a = from[0], b = from[1], c = from[2], d = from[3], e = from[4], f = from[5], g = from[6], h = from[7]
  for (let i = 0; i < 64; i++) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7))
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + K[i] + W[i]) | 0
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10))
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0
    h = g; g = f; f = e; e = (d + t1) | 0
    d = c; c = b; b = a; a = (t1 + t2) | 0
  }
  to[0] = from[0] + a; to[1] = from[1] + b; to[2] = from[2] + c; to[3] = from[3] + d
  to[4] = from[4] + e; to[5] = from[5] + f; to[6] = from[6] + g; to[7] = from[7] + h
}

// search returns the first number whose hash begins with so many zero bits. A
// challenge has 92 characters, so its first block is the same for every number and
// is done once, and all else fits the second.
function search(challenge, bits) {
  const bytes = new Uint8Array(128), middle = new Int32Array(8), sum = new Int32Array(8)
  const text = new TextEncoder().encode(challenge + '.')
  bytes.set(text)
  block(bytes, 0, START, middle)
  for (let n = 0; n <= Number.MAX_SAFE_INTEGER; n++) {
    const digits = String(n), end = text.length + digits.length
    for (let i = 0; i < digits.length; i++) bytes[text.length + i] = digits.charCodeAt(i)
    bytes[end] = 0x80 // the padding: one bit, zeros, the length in bits
    bytes[126] = (end * 8) >> 8
    bytes[127] = end * 8
    block(bytes, 64, middle, sum)
    if (Math.clz32(sum[0]) >= bits) return n // at most 26 bits are ever asked for
  }
}

export function solve({ challenge, difficulty }) {
  return new Promise((resolve, reject) => {
    // A page of another site may start a module of its own only, which may load another's.
    const file = import.meta.url, ours = file.startsWith(location.origin + '/')
    const worker = new Worker(ours ? file : URL.createObjectURL(new Blob(['import ' + JSON.stringify(file)], { type: 'text/javascript' })), { type: 'module' })
    worker.onmessage = ({ data }) => { worker.terminate(); resolve(`pow:${challenge}.${data}`) }
    worker.onerror = (e) => { worker.terminate(); reject(e) }
    worker.postMessage({ challenge, difficulty })
  })
}

if (typeof WorkerGlobalScope !== 'undefined') self.onmessage = ({ data }) => self.postMessage(search(data.challenge, data.difficulty))

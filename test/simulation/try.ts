import { explore, type Setup } from './protocol.js'
const requests = [
  { process: 0, caller: 'A', estimate: 2, used: [1, 3] },
  { process: 1, caller: 'A', estimate: 2, used: [1, 3] },
  { process: 1, caller: 'B', estimate: 2, used: [0] }
] as const
const setup: Setup = { limit: 3, requests, faults: { windowEnd: 1, crash: 1, lost: 1, late: 1 } }
for (const faults of [{ windowEnd: 0, crash: 0, lost: 0, late: 0 },{ windowEnd: 1, crash: 0, lost: 0, late: 0 },{ windowEnd: 0, crash: 1, lost: 0, late: 0 },{ windowEnd: 0, crash: 0, lost: 1, late: 0 },{ windowEnd: 0, crash: 0, lost: 0, late: 1 },{ windowEnd: 1, crash: 1, lost: 1, late: 1 }]) {
  console.time('t'); for (const n of [2,3]) console.log(JSON.stringify(faults), JSON.stringify(explore({ ...setup, requests: requests.slice(0, n), faults }, 3e6), null, 1)); console.timeEnd('t')
}

import type { StoredAccount } from './accounts.js'

/** Two accounts with the public passwords `wonderland` and `looking-glass`, for a service that only this machine can reach. */
export const demonstrationAccounts: readonly StoredAccount[] = [
  { username: 'alice', administrator: false, salt: 'LzJvbIYwur_7vxJApuZzVQ', hash: 't1t5ajcGBj8y9q7L-oJQCs70jeoNj0E7NU1Y1Jyd7f0' },
  { username: 'admin', administrator: true, salt: 'A2t6X4AeyzcomJ3Eem9YRw', hash: 'FSMvs9JSjD0DnCTPf09J7I5TX7Zg0L7Is-E_MiSVyMk' }
]

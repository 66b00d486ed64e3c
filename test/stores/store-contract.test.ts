// quotaStoreContract with the stores of the package that need no server.
import t from 'tap'
import { InsuredQuotaStore, MemoryQuotaStore, type QuotaStore } from '../../lib/index.js'
import { quotaStoreContract, type QuotaStoreContractOptions } from '../../lib/testing.js'

const subjects: Record<string, (options: QuotaStoreContractOptions) => QuotaStore> = {
  'the memory store': (options) => new MemoryQuotaStore(options),
  'the insured store': (options) => new InsuredQuotaStore({ primary: new MemoryQuotaStore(options) })
}

for (const [name, create] of Object.entries(subjects)) {
  t.test(`${name} passes each check of quotaStoreContract`, async (t) => {
    for (const { name, run } of quotaStoreContract(create)) await t.resolves(run(), name)
  })
}

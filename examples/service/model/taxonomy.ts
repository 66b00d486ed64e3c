/** A business capability. */
export interface Term {
  readonly code: string
  readonly name: string
  /** Words that are common in texts about it. */
  readonly about: string
}

/** The terms of a small taxonomy, by the code of their group. */
export const taxonomy: Readonly<Record<string, readonly Term[]>> = {
  FIN: [
    {
      code: 'FIN-INV',
      name: 'Invoicing',
      about: 'invoices sent to customers, billing, payment terms, reminders and dunning'
    },
    {
      code: 'FIN-ACC',
      name: 'Accounting',
      about: 'ledgers, bookings, closing of the year, balance sheet, audit and tax'
    },
    {
      code: 'FIN-PLN',
      name: 'Planning',
      about: 'budgets, forecasts, cash flow, costs and investment'
    }
  ],
  HR: [
    {
      code: 'HR-REC',
      name: 'Recruiting',
      about: 'job offers, candidates, applications, interviews and hiring'
    },
    {
      code: 'HR-DEV',
      name: 'Staff development',
      about: 'training, courses, careers, skills and appraisal'
    }
  ],
  OPS: [
    {
      code: 'OPS-SAL',
      name: 'Sales',
      about: 'customers, offers, orders, prices, contracts, complaints and returns'
    },
    {
      code: 'OPS-WHS',
      name: 'Warehousing',
      about: 'warehouses, stock, shelves, pallets, picking, packing and inventory'
    },
    {
      code: 'OPS-TRN',
      name: 'Transport',
      about: 'trucks, ships, routes, shipping, delivery and customs'
    }
  ]
}

/** Finds a term by its code, or makes one of any other words. */
export function termOf (codeOrWords: string): Term {
  const wanted = codeOrWords.trim().toUpperCase()
  return (
    Object.values(taxonomy)
      .flat()
      .find(({ code }) => code === wanted) ?? { code: '', name: codeOrWords, about: '' }
  )
}

/** A term of the built-in taxonomy of business capabilities. */
export interface TaxonomyNode {
  readonly code: string
  readonly name: string
  /** The subject of the term, in words that are common in texts about it. */
  readonly about: string
  readonly children: readonly TaxonomyNode[]
}

function node (code: string, name: string, about: string, children: readonly TaxonomyNode[] = []): TaxonomyNode {
  return { code, name, about, children }
}

const taxonomy = node('BC', 'Business capabilities', 'everything that a business can do', [
  node('FIN', 'Finance', 'money, budgets, accounting, invoices and payments', [
    node('FIN-INV', 'Invoicing', 'invoices sent to customers, billing, payment terms, reminders and dunning'),
    node('FIN-ACC', 'Accounting', 'ledgers, bookings, closing of the year, balance sheet, audit and tax'),
    node('FIN-PLN', 'Financial planning', 'budgets, forecasts, cash flow, costs and investment')
  ]),
  node('HR', 'Human resources', 'people, staff, hiring, salaries, training and leave', [
    node('HR-REC', 'Recruiting', 'job offers, candidates, applications, interviews and hiring'),
    node('HR-PAY', 'Payroll', 'salaries, wages, bonuses, deductions and social security'),
    node('HR-DEV', 'Staff development', 'training, courses, careers, skills and appraisal')
  ]),
  node('SAL', 'Sales', 'customers, offers, orders, contracts and revenue', [
    node('SAL-CRM', 'Customer relations', 'customers, contacts, visits, complaints, loyalty and service'),
    node('SAL-ORD', 'Order management', 'orders, offers, prices, contracts, delivery dates and returns')
  ]),
  node('LOG', 'Logistics', 'warehouses, transport, shipping, stock and suppliers', [
    node('LOG-WHS', 'Warehousing', 'warehouses, stock, shelves, picking, packing and inventory'),
    node('LOG-TRN', 'Transport', 'trucks, ships, routes, shipping, delivery and customs')
  ]),
  node('IT', 'Information technology', 'software, servers, networks, data and security', [
    node('IT-OPS', 'Operations', 'servers, networks, monitoring, backups, outages and incidents'),
    node('IT-DEV', 'Software development', 'software, code, tests, releases, features and bugs'),
    node('IT-SEC', 'Information security', 'passwords, attacks, encryption, access rights and data protection')
  ])
])

/** Finds a node by its code, or by its name in any case. */
export function findNode (codeOrName: string, from: TaxonomyNode = taxonomy): TaxonomyNode | undefined {
  const wanted = codeOrName.trim().toLowerCase()
  if (from.code.toLowerCase() === wanted || from.name.toLowerCase() === wanted) return from
  for (const child of from.children) {
    const found = findNode(codeOrName, child)
    if (found !== undefined) return found
  }
  return undefined
}

/** Returns the names and descriptions of a node and its descendants as one text. */
export function describeNode ({ name, about, children }: TaxonomyNode): string {
  return [`${name}: ${about}.`, ...children.map(describeNode)].join(' ')
}

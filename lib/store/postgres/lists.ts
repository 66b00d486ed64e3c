// Lists of records as PostgreSQL reads them, which costs it half of what JSON does.

/** Returns a record, whose fields are in the order of its type, as text. */
export function recordOf (fields: readonly (string | number | boolean | null)[]): string {
  return `(${fields.map(fieldOf).join()})`
}

function fieldOf (field: string | number | boolean | null): string {
  if (field === null) return ''
  return typeof field === 'string' ? quoted(field) : String(field)
}

/** Returns an array of texts, or of records as text. */
export function arrayOf (elements: readonly string[]): string {
  return `{${elements.map(quoted).join()}}`
}

function quoted (text: string): string {
  return `"${text.replaceAll(/["\\]/g, '\\$&')}"`
}

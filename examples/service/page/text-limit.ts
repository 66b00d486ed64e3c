import { byId } from './document.js'
import { inFull } from './numbers.js'

const counter = byId('text-count', HTMLElement)
const field = byId('text', HTMLTextAreaElement)
// Servers and proxies commonly accept URLs of up to 8 KiB.
const mostBytes = 7500
const mostCharacters = 20_000

/** Shows the length of the text as the operation sends it, and prevents the form from sending a text that is too long. */
export function countText (method: 'GET' | 'POST'): void {
  const used = method === 'GET' ? new URLSearchParams({ t: field.value }).toString().length - 2 : field.value.length
  const most = method === 'GET' ? mostBytes : mostCharacters
  const excess = used - most
  counter.classList.toggle('over', excess > 0)
  counter.textContent = method === 'GET' ? `${inFull(used)} of ${inFull(most)} bytes in the address` : `${inFull(used)} of ${inFull(most)} characters`
  field.setAttribute('aria-invalid', String(excess > 0))
  field.setCustomValidity(validity(excess))
}

function validity (excess: number): string {
  if (field.value.trim() === '') return 'Enter a text.'
  return excess > 0 ? `The text is ${inFull(excess)} too long for this operation. Shorten it.` : ''
}

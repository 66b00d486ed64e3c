import { html } from '/lit-html/lit-html.js'

/**
 * Draws what is used of a limit, and beside it what requests in progress hold. The text beside it
 * says the same.
 */
export function bar ({ count, held, limit }) {
  const most = Math.max(limit, count)
  const share = (amount) => (100 * amount) / most
  const used = share(count - held)
  return html`<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
    <rect class="used" width=${used} height="10" />
    <rect class="held" x=${used} width=${share(held)} height="10" />
  </svg>`
}

import { byId, setText } from './document.js'
import { secondsOf } from './numbers.js'
import { usedOf } from './quotas.js'
import { type Now, now, onStanding } from './standing.js'

const button = byId('run-button', HTMLButtonElement)
const box = byId('limit-reached', HTMLElement)
const progress = byId('progress', HTMLElement)

let running = false
let rejection = ''

/** Updates the button with each change of the standing. */
export function keepButton (): void {
  onStanding(draw)
}

/** Whether an operation can run now. */
export function canRun (): boolean {
  return !running && now()?.full === undefined
}

/** Disables the button while an operation runs. */
export function setRunning (value: boolean): void {
  running = value
  draw(now())
}

/** Shows the message of a rejection while a limit is reached. Returns whether a limit is reached. */
export function showRejection (message: string): boolean {
  rejection = message
  draw(now())
  return !box.hidden
}

function draw (standing: Now | undefined): void {
  const full = standing?.full
  // Uses aria-disabled instead of `disabled`, so that the button keeps the keyboard focus.
  button.setAttribute('aria-disabled', String(running || full !== undefined))
  setText(button, running ? 'Running…' : 'Run')
  if (full === undefined) {
    rejection = ''
    if (box.contains(document.activeElement)) button.focus()
    if (!box.hidden && standing !== undefined) progress.textContent = 'You can run operations again.'
  } else {
    setText(byId('limit-message', HTMLElement), rejection === '' ? `Limit reached: ${usedOf(full)}.` : rejection)
    setText(byId('wait', HTMLElement), `Run again in ${secondsOf(full.left)}.`)
  }
  box.hidden = full === undefined
  box.className = rejection === '' ? 'notice' : 'rejection'
}

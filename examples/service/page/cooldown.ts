import { byId } from './document.js'

const button = byId('run-button', HTMLButtonElement)
const wait = byId('wait', HTMLElement)
const countdown = byId('countdown', HTMLElement)
const refusal = byId('refusal', HTMLElement)
const progress = byId('progress', HTMLElement)

let timer: ReturnType<typeof setInterval> | undefined

/** Whether the last refusal asked to wait, and the wait is not over. */
export function isCoolingDown (): boolean {
  return timer !== undefined
}

/** Counts down the seconds that a refusal asked to wait, and brings the button back by itself. */
export function coolDown (seconds: number): void {
  endCoolDown()
  const until = performance.now() + seconds * 1000
  // The button keeps the keyboard's focus, so it is not `disabled`.
  button.setAttribute('aria-disabled', 'true')
  wait.hidden = false
  const tick = (): void => {
    const left = Math.ceil((until - performance.now()) / 1000)
    if (left > 0) {
      countdown.textContent = `${left} s`
      button.textContent = `Run again in ${left} s`
    } else {
      endCoolDown()
      refusal.hidden = true
      progress.textContent = 'Your window has ended. You can run operations again.'
    }
  }
  timer = setInterval(tick, 250)
  tick()
}

/** Brings the button back now. */
export function endCoolDown (): void {
  clearInterval(timer)
  timer = undefined
  button.removeAttribute('aria-disabled')
  button.textContent = 'Run'
  wait.hidden = true
}

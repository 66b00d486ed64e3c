import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import axe from 'axe-core'
import { type Browser, chromium, type Page } from 'playwright-core'

/** The folder for screenshots, which git ignores. */
export const screenshots = 'build/screenshots'

/** Starts the Chromium that is on the PATH. */
export async function startBrowser (): Promise<Browser> {
  mkdirSync(screenshots, { recursive: true })
  const found = ['chromium', 'chromium-browser', 'google-chrome'].map((name) => spawnSync('which', [name], { encoding: 'utf8' }).stdout.trim()).find((path) => path !== '')
  if (found === undefined) throw new Error('there is no chromium on the PATH; install Debian\'s chromium')
  // Chromium has no sandbox for root. The pages are served from loopback only.
  return await chromium.launch({
    executablePath: found,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']
  })
}

/** Returns the violations of those WCAG rules that a program can check. */
export async function inaccessible (page: Page): Promise<string[]> {
  if (!await page.evaluate('"axe" in globalThis')) await page.evaluate(axe.source)
  const violations = await page.evaluate<{ id: string, nodes: { html: string, failureSummary?: string }[] }[]>(
    'axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }).then(({ violations }) => violations)')
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary ?? ''}`))
}

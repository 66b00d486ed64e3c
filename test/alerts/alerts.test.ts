// The alert rules in docs/alerts.yml and the queries in docs/dashboard.json, checked with promtool. series.json holds the metrics of real services
// in each state, as `npm run alerts` records them.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import t from 'tap'
import { plainEnvironment } from '../support/environment.js'

interface Panel { title: string, description?: string, fieldConfig?: { defaults: { noValue?: string } }, targets?: { expr: string }[] }

const folder = mkdtempSync(join(tmpdir(), 'quota-alerts-'))
t.teardown(() => { rmSync(folder, { recursive: true }) })

const rules = readFileSync('docs/alerts.yml', 'utf8')
const alertNames = [...rules.matchAll(/alert: (\w+)/g)].map(([, name = '']) => name)
const recorded: Record<string, { series: string, values: string }[]> = JSON.parse(readFileSync('test/alerts/series.json', 'utf8'))

function promtool (command: string, file: string, content: object): string {
  // JSON is valid YAML.
  writeFileSync(join(folder, file), JSON.stringify(content))
  return execFileSync('promtool', [...command.split(' '), join(folder, file)], { encoding: 'utf8', env: plainEnvironment(), stdio: ['ignore', 'pipe', 'pipe'] })
}

/** The alerts of each state 14 minutes after it began. */
const states: Record<string, string[]> = {
  'healthy, in memory': [],
  'healthy, shared by two instances': [],
  'healthy, without traffic': [],
  'healthy, with a few requests without authentication': [],
  'healthy, with rejections in shadow mode': [],
  'healthy, with a limit of 0': [],
  'one connection lost at night': [],
  'one request with 503': [],
  'the server restarts': [],
  'the server is lost, not insured': ['QuotaStoreUnavailable'],
  'the server is lost, in shadow mode': ['QuotaStoreUnavailable'],
  'the server is lost': ['QuotaOnFallback'],
  'half of the instances lose the server': ['QuotaOnFallback'],
  'one of three masters is lost': ['QuotaOnFallback'],
  'the server takes 60 to 140 ms': ['QuotaOnFallback', 'QuotaStoreSlow'],
  'the server takes 60 to 90 ms': ['QuotaStoreSlow'],
  'most requests are unauthenticated': ['QuotaUnauthenticated'],
  'the caller cap is near': ['QuotaCapNear'],
  'the caller cap is reached': ['QuotaCapNear', 'QuotaOverflow'],
  'the preference reader fails': ['QuotaPreferencesUnavailable'],
  'charges are lost': ['QuotaChargesLost']
}

/** Throws with promtool's explanation unless exactly the given alerts fire at the end, and none other at any time. */
function assertFires (state: string, expected: readonly string[]): void {
  // An alert that is expected at the end is checked at the end and before the state began.
  const timesOf = (alert: string) => expected.includes(alert) ? [4, 19] : Array.from({ length: 20 }, (_, minute) => minute)
  promtool('test rules', 'test.json', {
    rule_files: [resolve('docs/alerts.yml')],
    evaluation_interval: '30s',
    tests: [{
      interval: '30s',
      input_series: recorded[state],
      promql_expr_test: alertNames.flatMap((alert) => timesOf(alert).map((minute) => ({
        expr: `count by (alertname) (ALERTS{alertname="${alert}",alertstate="firing"})`,
        eval_time: `${minute}m`,
        exp_samples: expected.includes(alert) && minute === 19 ? [{ labels: `{alertname="${alert}"}`, value: 1 }] : []
      })))
    }]
  })
}

for (const [state, alerts] of Object.entries(states)) {
  t.test(`${alerts.length === 0 ? 'no alert fires' : `${alerts.join(' and ')} ${alerts.length === 1 ? 'fires' : 'fire'}`} in the state "${state}"`, async (t) => {
    t.doesNotThrow(() => { assertFires(state, alerts) })
  })
}

t.test('each recorded state is tested, and each alert fires in one of them', async (t) => {
  t.same(Object.keys(recorded), Object.keys(states))
  t.same([...new Set(Object.values(states).flat())].sort(), [...alertNames].sort())
})

t.test('docs/operating.md explains each alert, and each metric', async (t) => {
  const operating = readFileSync('docs/operating.md', 'utf8')
  const metrics = new Set(rules.match(/llm_quota_\w+/g))
  t.same([...alertNames, ...[...metrics].map((name) => name.replace(/_bucket$/, ''))].filter((name) => !operating.includes(`\`${name}\``)), [])
})

t.test('the dashboard queries metrics that operating.md lists, by job, and describes each panel', async (t) => {
  const panels: Panel[] = JSON.parse(readFileSync('docs/dashboard.json', 'utf8')).panels
  const expressions = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
  const variables: [string, string][] = [['$job', 'api'], ['$__rate_interval', '1m']]
  const plain = expressions.map((expr) => variables.reduce((text, [name, value]) => text.replaceAll(name, value), expr))
  t.match(promtool('check rules', 'dashboard.json', { groups: [{ name: 'dashboard', rules: plain.map((expr, index) => ({ record: `panel_${index}`, expr })) }] }), `SUCCESS: ${expressions.length} rules found`)
  for (const expr of expressions) t.equal(expr.match(/job=~"\$job"/g)?.length, expr.match(/llm_quota_/g)?.length, expr)

  const listed = [...readFileSync('docs/operating.md', 'utf8').matchAll(/^\| `(llm_quota_\w+)` \|/gm)].map(([, name]) => name)
  const shown = new Set(expressions.flatMap((expr) => expr.match(/llm_quota_\w+/g) ?? []).map((name) => name.replace(/_bucket$/, '')))
  t.same([...shown].sort(), listed.sort(), 'every metric is shown')
  for (const { title, description = '' } of panels) t.ok(description.length > 20, `${title}: ${description}`)
  t.equal(panels.find(({ title }) => title === 'Insured store')?.fieldConfig?.defaults.noValue, 'not insured')
})

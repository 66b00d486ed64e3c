const excluded = [
  'NODE_OPTIONS',
  'NODE_V8_COVERAGE',
  'TAP',
  '_TAP',
  'REDIS_URL',
  'DATABASE_URL',
  'JWT_',
  'OIDC_',
  'MODEL_',
  'ALLOWED_HOSTS',
  'PUBLIC_URL',
  'SERVICE_RATE'
]

/**
 * The environment for a program that a test starts, without settings of the service and without the
 * variables that the test runner uses to follow processes. Coverage is not measured for such
 * programs.
 */
export function plainEnvironment (more: Record<string, string> = {}): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) =>
      !excluded.some((prefix) => name.startsWith(prefix))
  )
  return { ...Object.fromEntries(kept), _TAPJS_PROCESSINFO_COVERAGE_: '0', ...more }
}

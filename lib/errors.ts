import createError from '@fastify/error'

/** An option has an invalid value. The message contains the name of the option and the value. */
export const OptionError = createError('FST_ERR_LLM_QUOTA_OPTION', 'fastify-llm-quota: the option %s %s; it got %s', 500, TypeError)

/** An environment variable has an invalid value. The message contains the name of the variable and the value. */
export const EnvironmentError = createError('FST_ERR_LLM_QUOTA_ENVIRONMENT', 'fastify-llm-quota: the environment variable %s %s; it got %s', 500, TypeError)

/** The plugin is registered a second time for the same requests. */
export const SecondRegistrationError = createError('FST_ERR_LLM_QUOTA_SECOND_REGISTRATION', 'fastify-llm-quota: registered a second time for the same requests (prefix %s), which would be counted twice. Register it once, and use the option quotas for several quotas')

/** A route is marked with a quota that does not exist. The message contains the route, the existing quotas and the value. */
export const UnknownQuotaError = createError('FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA', 'fastify-llm-quota: the route %s has a config.quota that is neither true nor the name of a quota (%s); it got %s')

/** The host already has a request decorator named `quota`. */
export const DecoratorError = createError('FST_ERR_LLM_QUOTA_DECORATOR', 'fastify-llm-quota: requests already have a decorator "quota", which the plugin needs for its decision; rename the existing decorator')

/** A route is marked with one quota and is an operation of another. The message contains the route and both quotas. */
export const QuotaConflictError = createError('FST_ERR_LLM_QUOTA_CONFLICT', 'fastify-llm-quota: the route %s is marked with the quota %s but is also an operation of the quota %s; remove one of the two')

/** `fastify.quotaStanding` was called with the name of a quota that does not exist. The message lists the existing quotas. */
export const QuotaNameError = createError('FST_ERR_LLM_QUOTA_NAME', 'fastify-llm-quota: there is no quota %s; the quotas are %s')

/** The store failed in `fastify.quotaStanding`. The message omits the store's error, because an error handler could send it to the caller. */
export const StandingError = createError('FST_ERR_LLM_QUOTA_STANDING', 'fastify-llm-quota: the quota store failed, so the standing of the caller is unknown', 503)

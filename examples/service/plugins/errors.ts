import createError from '@fastify/error'
import type { FastifyError } from 'fastify'
import createPlugin from 'fastify-plugin'
import { APIError, APIUserAbortError } from 'openai'

export const WrongCredentials = createError(
  'WRONG_CREDENTIALS',
  'The user name or the password is wrong.',
  401
)
export const InvalidToken = createError('INVALID_TOKEN', 'The token is not valid.', 401)
export const NotSignedIn = createError('NOT_SIGNED_IN', 'Sign in first.', 401)
export const NotAdministrator = createError(
  'NOT_ADMINISTRATOR',
  'This requires an administrator.',
  403
)
export const ModelUnusable = createError(
  'MODEL_UNUSABLE',
  "The model's answer cannot be used. Please try again.",
  502
)
export const ModelBusy = createError('MODEL_BUSY', 'The model is busy. Please try again.', 503)
const ModelRefused = createError(
  'MODEL_REFUSED',
  'The model does not accept the request. The service logs the status.',
  502
)
const ModelFailed = createError('MODEL_FAILED', 'The model failed. Please try again.', 503)
const ModelTimeout = createError(
  'MODEL_TIMEOUT',
  'The model took too long. Please try again, or send a shorter text.',
  503
)

/** Answers errors in the format of the quota's refusals. */
export default createPlugin(
  async function errors (app) {
    app.setErrorHandler<FastifyError>(async (error, request, reply) => {
      const { code, message, statusCode: status = 500 } = forClient(error)
      if (status < 500 || reply.raw.destroyed) {
        request.log.info({ code }, 'the request cannot be answered')
      } else {
        // The message of a model's server can contain the text or the key.
        request.log.error(
          error instanceof APIError ? { code, status: error.status } : { err: error, code },
          'the service failed'
        )
      }
      // A server that answers with an error has used no tokens, unless its time was up.
      if (error instanceof APIError && error.status !== undefined && !isTimeLimit(error.status)) {
        request.quota.charge(0)
      }
      if (status === 503) reply.header('retry-after', 5)
      const shown = status === 500 ? 'The service failed. Please try again.' : message
      return reply.code(status).header('cache-control', 'no-store').send({ error: shown, status })
    })
    app.setNotFoundHandler(async (_request, reply) =>
      reply.code(404).send({ error: 'Not found. See /documentation.', status: 404 })
    )
  },
  { name: 'errors' }
)

const isTimeLimit = (status: number): boolean => status === 408 || status === 504

/** Returns the error that a client may see. */
export function forClient (
  error: unknown
): FastifyError | (Error & { statusCode?: number; code?: string }) {
  if (
    error instanceof APIUserAbortError ||
    (error instanceof Error && error.name === 'AbortError')
  ) {
    return new ModelTimeout()
  }
  if (!(error instanceof APIError)) return error instanceof Error ? error : new Error()
  const { status = 500 } = error
  if (status === 429) return new ModelBusy()
  return status < 500 ? new ModelRefused() : new ModelFailed()
}

import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { quotaDecisions, type QuotaDecisionMessage } from '../../lib/index.js'

/**
 * Returns the messages that are published on a channel, by default the decisions, while a function
 * runs.
 */
export async function published<Message = QuotaDecisionMessage> (
  run: () => Promise<unknown>,
  channel: string | symbol = quotaDecisions.name
): Promise<Message[]> {
  const messages: Message[] = []
  const note = (message: unknown): void => {
    messages.push(message as Message)
  }
  subscribe(channel, note)
  await run()
  unsubscribe(channel, note)
  return messages
}

export type { PostgresPool } from './store/postgres/database.js'
export { PostgresQuotaStore, type PostgresQuotaStoreOptions } from './store/postgres/postgres-store.js'
export { postgresSchema, type PostgresSchemaOptions } from './store/postgres/schema.js'

import ky from 'ky'

export async function ask (address: string, token: string): Promise<string> {
  return await ky.post(`${address}/api/analyze`, { headers: { authorization: `Bearer ${token}` }, retry: { methods: ['post'] } }).text()
}

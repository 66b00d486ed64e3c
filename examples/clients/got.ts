import got from 'got'

export async function ask (address: string, token: string): Promise<string> {
  return await got.post(`${address}/api/analyze`, { headers: { authorization: `Bearer ${token}` }, retry: { methods: ['POST'] } }).text()
}

import { Gpt2Error } from '../error.js';

/**
 * The files that an index of sharded weights names, in order.
 * @param {string} text of the index @param {string} name of the index @param {string} label of its source
 * @returns {{ shards: string[], totalSize: number | null }} `totalSize` in bytes, if the index tells
 * @throws {Gpt2Error}
 */
export function shardsOf(text, name, label) {
  /** @type {{ weight_map?: { [tensor: string]: unknown }, metadata?: { total_size?: unknown } }} */ let index;
  try {
    index = JSON.parse(text);
  } catch (cause) {
    throw new Gpt2Error('damaged_model', `${name} of ${label} is not JSON; it cannot say which files the weights are in`, { cause });
  }
  const shards = [...new Set(Object.values(index?.weight_map ?? {}))];
  const plain = shards.filter((shard) => typeof shard === 'string' && /^[\w.-]+\.safetensors$/.test(shard));
  if (plain.length === 0 || plain.length < shards.length) {
    throw new Gpt2Error('damaged_model', `${name} of ${label} does not name the files of the weights in its weight_map`);
  }
  const total = Number(index.metadata?.total_size);
  return { shards: plain.map(String).sort(), totalSize: total > 0 ? total : null };
}

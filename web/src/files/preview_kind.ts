// What can be shown of a file without downloading it.
export type PreviewKind = 'text' | 'image' | 'safetensors' | 'none';

const kImages: Record<string, string> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  svg: 'image/svg+xml',
};

const kText = 'txt log md json jsonl toml yaml yml csv tsv py cpp h sh xml ini cfg conf out err'.split(' ');

function extension_of(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1);
  return name.includes('.') ? name.slice(name.lastIndexOf('.') + 1).toLowerCase() : '';
}

export function preview_kind(path: string): PreviewKind {
  const extension = extension_of(path);
  if (extension in kImages) return 'image';
  if (extension === 'safetensors') return 'safetensors';
  return kText.includes(extension) || extension === '' ? 'text' : 'none';
}

export function image_type(path: string): string {
  return kImages[extension_of(path)] ?? 'application/octet-stream';
}

/** Whether bytes look like text: no NUL among them. */
export function looks_like_text(bytes: Uint8Array): boolean {
  return !bytes.includes(0);
}

import { useEffect, useState } from 'preact/hooks';
import { sentence_of } from '../api/client';
import type { StoredFile } from '../api/types';
import { format_bytes, plural } from '../format';
import { Loading } from '../ui/empty_state';
import { usePolled } from '../ui/use_polled';
import { image_type, looks_like_text, preview_kind } from './preview_kind';
import { read_bytes } from './read_bytes';
import { header_length, parse_header, type SafetensorsHeader } from './safetensors';

const kTextBytes = 200_000;
const kImageBytes = 20_000_000;
const kTensorsShown = 2000;

type Content =
  | { kind: 'text'; text: string; cut: boolean }
  | { kind: 'image'; blob: Blob }
  | { kind: 'safetensors'; header: SafetensorsHeader }
  | { kind: 'none'; why: string };

async function read_content(url: string, file: StoredFile, signal: AbortSignal): Promise<Content> {
  const kind = preview_kind(file.path);
  if (kind === 'image') {
    if (file.bytes > kImageBytes) return { kind: 'none', why: `The image has ${format_bytes(file.bytes)}: download it to see it.` };
    const bytes = await read_bytes(url, 0, file.bytes, signal);
    return { kind, blob: new Blob([bytes as Uint8Array<ArrayBuffer>], { type: image_type(file.path) }) };
  }
  if (kind === 'safetensors') {
    const length = header_length(await read_bytes(url, 0, 8, signal));
    return { kind, header: parse_header(await read_bytes(url, 8, length, signal)) };
  }
  if (kind === 'text') {
    const bytes = await read_bytes(url, 0, Math.min(file.bytes, kTextBytes), signal);
    if (looks_like_text(bytes)) return { kind, text: new TextDecoder().decode(bytes), cut: file.bytes > kTextBytes };
  }
  return { kind: 'none', why: 'There is no preview of this kind of file.' };
}

function ImageView({ blob, name }: { blob: Blob; name: string }) {
  const [url, set_url] = useState('');
  useEffect(() => {
    const made = URL.createObjectURL(blob);
    set_url(made);
    return () => URL.revokeObjectURL(made);
  }, [blob]);
  return url === '' ? null : <img class="preview-image" src={url} alt={name} />;
}

function HeaderView({ header }: { header: SafetensorsHeader }) {
  return (
    <div class="stack">
      <p class="number">
        {plural(header.tensors.length, 'tensor')}, {header.parameters.toLocaleString('en')} parameters
      </p>
      {header.metadata.length > 0 && <p class="quiet-text">{header.metadata.map(([key, value]) => `${key}: ${value}`).join(', ')}</p>}
      <table class="plain-table">
        <thead>
          <tr>
            <th>Tensor</th>
            <th>Type</th>
            <th>Shape</th>
            <th class="number">Size</th>
          </tr>
        </thead>
        <tbody>
          {header.tensors.slice(0, kTensorsShown).map((tensor) => (
            <tr key={tensor.name}>
              <td class="mono">{tensor.name}</td>
              <td class="mono">{tensor.dtype}</td>
              <td class="mono">{tensor.shape.join(' × ') || 'scalar'}</td>
              <td class="number">{format_bytes(tensor.bytes)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {header.tensors.length > kTensorsShown && <p class="quiet-text">The first {kTensorsShown} are shown.</p>}
    </div>
  );
}

export function Preview({ url, file }: { url: string; file: StoredFile }) {
  const { value: content, error } = usePolled(`${url} ${file.bytes} ${file.modified}`, 0, (signal) => read_content(url, file, signal));
  if (!content) return error ? <p class="problem">{sentence_of(error)}</p> : <Loading what="the preview" />;
  switch (content.kind) {
    case 'text':
      return (
        <>
          <pre class="preview-text" tabIndex={0} aria-label={file.path}>
            {content.text}
          </pre>
          {content.cut && <p class="quiet-text">The first {format_bytes(kTextBytes)} are shown; the download has all.</p>}
        </>
      );
    case 'image':
      return <ImageView blob={content.blob} name={file.path} />;
    case 'safetensors':
      return <HeaderView header={content.header} />;
    case 'none':
      return <p class="quiet-text">{content.why}</p>;
  }
}

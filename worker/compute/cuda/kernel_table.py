#!/usr/bin/env python3
"""Writes the tables of kernels into README.md beside this file.

usage: kernel_table.py [--arch sm_90] [--check libgimbal_cuda.so]

Compiles every kernel with nvcc, which says what registers, shared memory and
spilled bytes it takes. Bytes and FLOP are taken from the comments beside the
launchers. With --check nothing is compiled or written: the exit code is 1 when
README.md has other kernels than the library, or other launchers than the headers.
"""
import argparse
import pathlib
import re
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
README = FOLDER / 'README.md'
BEGIN, END = '<!-- made by kernel_table.py: -->', '<!-- end -->'


def demangled(names):
    return subprocess.run(['c++filt'], input='\n'.join(names), text=True, check=True,
                          stdout=subprocess.PIPE).stdout.splitlines()


def short(name):
    """Kernel and template arguments, without types and namespaces."""
    name = name.replace('(anonymous namespace)::', '')
    name = re.sub(r'_GLOBAL__N__\w+::', '', name)
    name = name.replace('gimbal::compute::cuda::', '').removeprefix('void ')
    return re.sub(r'\(.*\)$', '', re.sub(r'\((?:int|long|bool)\)', '', name))


def kernels(arch):
    """(name, registers, shared bytes, spilled bytes) of each, sorted."""
    rows = []
    for source in sorted(FOLDER.glob('*.cu')):
        log = subprocess.run(
            ['nvcc', '-std=c++20', '-arch', arch, '-cubin', '-Xptxas', '-v', '-I',
             FOLDER.parents[2], '-o', '/dev/null', source],
            text=True, check=True, stderr=subprocess.PIPE).stderr
        for entry in log.split('Compiling entry function')[1:]:
            name = demangled([re.match(r" '(\w+)'", entry)[1]])[0]
            shared = re.search(r'(\d+) bytes smem', entry)
            rows.append((f'{source.stem}: ' + short(name),
                         int(re.search(r'Used (\d+) registers', entry)[1]),
                         int(shared[1]) if shared else 0,
                         int(re.search(r'(\d+) bytes spill stores', entry)[1])))
    return sorted(rows)


def kernels_in(library):
    """Names of the kernels that a library has: every one comes with a function for
    the host, whose name holds the kernel's and is preceded by its length."""
    names = []
    for found in re.finditer(rb'ZL?(\d+)(__device_stub__Z\w+)', library.read_bytes()):
        names.append(found[2][:int(found[1])].decode().removeprefix('__device_stub_'))
    sources = [re.search(r'_GLOBAL__N__[0-9a-f]+_\d+_(\w+?)_cu_', name)[1]
               for name in names]
    return {f'{source}: {short(name)}'
            for source, name in zip(sources, demangled(names))}


def differences(library):
    """What README.md says otherwise than the library and the headers."""
    page = README.read_text()
    lines = page[page.index(BEGIN):page.index(END)].splitlines()
    listed = {line.split(' | ')[0].removeprefix('| ') for line in lines
              if re.match(r'\| \w+: ', line)}
    there = kernels_in(library)
    found = [f'{name} is missing' for name in sorted(there - listed)]
    found += [f'{name} is no kernel' for name in sorted(listed - there)]
    found += [f'what {row[0]} costs is not there as: {row_of(row)}'
              for row in launchers() if row_of(row) not in lines]
    return found


def launchers():
    """(function, bytes, FLOP) from the comments of the headers."""
    rows = []
    for header in sorted(FOLDER.glob('*.h')):
        comment = ''
        for line in header.read_text().splitlines():
            if line.strip().startswith('//'):
                comment += ' ' + line.strip()[2:].strip()
                continue
            if line.startswith('template '):
                continue
            declared = re.match(r'\s*void (operator\(\)|\w+)\(', line)
            if declared and re.search(r'Bytes|FLOP', comment):
                name = declared[1].replace('operator()', 'Gemm')
                cost = [re.search(word + r'[^:]*: (.*?)(?:\. |\.?$)', comment)
                        for word in ('Bytes', 'FLOP')]
                rows.append((name, *(c[1] if c else '' for c in cost)))
            if line.strip():
                comment = ''
    return rows


def row_of(cells):
    return '| ' + ' | '.join(str(cell) for cell in cells) + ' |'


def table(head, rows):
    return '\n'.join([row_of(head), '|' + '---|' * len(head), *map(row_of, rows)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--arch', default='sm_90')
    parser.add_argument('--check', type=pathlib.Path, metavar='LIBRARY')
    options = parser.parse_args()
    if options.check:
        found = differences(options.check)
        for line in found:
            print(f'{README}: {line}')
        if found:
            print('to write the page anew: worker/compute/cuda/kernel_table.py')
        sys.exit(1 if found else 0)
    text = '\n\n'.join([
        BEGIN,
        table(['launcher', 'bytes', 'FLOP'], launchers()),
        f'Compiled for {options.arch}:',
        table(['kernel', 'registers', 'shared bytes', 'spilled bytes'],
              kernels(options.arch)),
        END])
    old = README.read_text()
    README.write_text(old[:old.index(BEGIN)] + text +
                      old[old.index(END) + len(END):])


if __name__ == '__main__':
    main()

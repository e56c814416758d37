// nvJPEG's functions, found by name in a library that is opened when it is needed.
#pragma once

#include <nvjpeg.h>

#include "lockstep/base/library_symbol.h"

namespace lockstep::cuda {

class NvjpegLibrary {
  LibrarySymbol find(const char* name) const;

  void* const library_;

 public:
  /// Opened at the first call, never closed. Throws std::runtime_error in the loader's words; the next call
  /// then tries again.
  static const NvjpegLibrary& get();

  decltype(nvjpegGetProperty)* const get_property = find("nvjpegGetProperty");
  decltype(nvjpegCreateEx)* const create = find("nvjpegCreateEx");
  decltype(nvjpegDecoderCreate)* const create_decoder = find("nvjpegDecoderCreate");
  decltype(nvjpegDecoderStateCreate)* const create_state = find("nvjpegDecoderStateCreate");
  decltype(nvjpegJpegStateDestroy)* const destroy_state = find("nvjpegJpegStateDestroy");
  decltype(nvjpegJpegStreamCreate)* const create_file = find("nvjpegJpegStreamCreate");
  decltype(nvjpegJpegStreamDestroy)* const destroy_file = find("nvjpegJpegStreamDestroy");
  decltype(nvjpegJpegStreamParse)* const parse = find("nvjpegJpegStreamParse");
  decltype(nvjpegJpegStreamGetJpegEncoding)* const get_encoding = find("nvjpegJpegStreamGetJpegEncoding");
  decltype(nvjpegJpegStreamGetFrameDimensions)* const get_size = find("nvjpegJpegStreamGetFrameDimensions");
  decltype(nvjpegJpegStreamGetComponentsNum)* const get_components = find("nvjpegJpegStreamGetComponentsNum");
  decltype(nvjpegDecodeParamsCreate)* const create_parameters = find("nvjpegDecodeParamsCreate");
  decltype(nvjpegDecodeParamsDestroy)* const destroy_parameters = find("nvjpegDecodeParamsDestroy");
  decltype(nvjpegDecodeParamsSetOutputFormat)* const set_output = find("nvjpegDecodeParamsSetOutputFormat");
  decltype(nvjpegBufferPinnedCreate)* const create_pinned = find("nvjpegBufferPinnedCreate");
  decltype(nvjpegBufferPinnedDestroy)* const destroy_pinned = find("nvjpegBufferPinnedDestroy");
  decltype(nvjpegBufferDeviceCreate)* const create_device = find("nvjpegBufferDeviceCreate");
  decltype(nvjpegBufferDeviceDestroy)* const destroy_device = find("nvjpegBufferDeviceDestroy");
  decltype(nvjpegStateAttachPinnedBuffer)* const attach_pinned = find("nvjpegStateAttachPinnedBuffer");
  decltype(nvjpegStateAttachDeviceBuffer)* const attach_device = find("nvjpegStateAttachDeviceBuffer");
  decltype(nvjpegDecoderJpegSupported)* const supports = find("nvjpegDecoderJpegSupported");
  decltype(nvjpegDecodeJpegHost)* const decode_on_host = find("nvjpegDecodeJpegHost");
  decltype(nvjpegDecodeJpegTransferToDevice)* const send_to_device = find("nvjpegDecodeJpegTransferToDevice");
  decltype(nvjpegDecodeJpegDevice)* const decode_on_device = find("nvjpegDecodeJpegDevice");

 private:
  NvjpegLibrary();
};

}  // namespace lockstep::cuda
